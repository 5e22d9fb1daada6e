// What two answers have in common, and in what they differ.
import { isDeepStrictEqual } from "node:util";

const ALWAYS = [
  "stream-closed", "producer-epoch", "producer-seq", "producer-expected-seq",
  "producer-received-seq",
];
const OF_SUCCESS = [
  "content-type", "stream-up-to-date", "stream-ttl", "stream-expires-at",
  "stream-sse-data-encoding", "cache-control",
];
const PRESENT = ["etag", "stream-cursor", "location", "stream-next-offset"];

/// Offsets of a stream: each server has its own tokens for the same places.
export class Offsets {
  pairs = [];

  /// Whether two tokens can mean the same place; notes that they do.
  agree(ours, theirs) {
    const known = this.pairs.find(([a, b]) => a === ours || b === theirs);
    if (known) return known[0] === ours && known[1] === theirs;
    this.pairs.push([ours, theirs]);
    // Places come in one order.
    const order = (side) => this.pairs.map((_, at) => at)
      .sort((a, b) => (this.pairs[a][side] < this.pairs[b][side] ? -1 : 1));
    return isDeepStrictEqual(order(0), order(1));
  }
}

/// Lists in what two answers to a request differ; nothing if in nothing that counts.
export function differences(request, ours, theirs, offsets) {
  if (ours.status !== theirs.status) return [`status ${ours.status}, theirs ${theirs.status}`];
  const found = [];
  const isSuccess = ours.status < 300;
  const differ = (what, a, b) => {
    if (!isDeepStrictEqual(a, b)) found.push(`${what} ${JSON.stringify(a)}, theirs ${JSON.stringify(b)}`);
  };
  for (const name of isSuccess ? [...ALWAYS, ...OF_SUCCESS] : ALWAYS) {
    differ(name, ours.headers[name], theirs.headers[name]);
  }
  if (isSuccess) {
    for (const name of PRESENT) differ(`${name} is there:`, name in ours.headers, name in theirs.headers);
  }
  const next = [ours, theirs].map((answer) => answer.headers["stream-next-offset"]);
  if (next[0] && next[1] && !offsets.agree(...next)) {
    found.push(`stream-next-offset ${next[0]}, theirs ${next[1]}, known ${JSON.stringify(offsets.pairs)}`);
  }
  if (isSuccess && request.method === "GET") {
    const [a, b] = [ours, theirs].map((answer) => content(request, answer));
    if (a.pieces) differ("content of events", ...carried(a.pieces, b.pieces));
    differ("body", a.body, b.body);
    if (a.next && b.next && !offsets.agree(a.next, b.next)) {
      found.push(`an event's offset ${a.next}, theirs ${b.next}`);
    }
  }
  return found;
}

/// What a body means: JSON as values, events as what they carry, whatever pieces it comes in.
function content(request, answer) {
  const type = answer.headers["content-type"] ?? "";
  if (request.path.startsWith("__ds/jwks")) return { body: jwks(answer.body) };
  if (request.path.startsWith("__ds/")) return { body: subscription(answer.body) };
  if (/event-stream/.test(type)) return events(answer);
  if (/json/i.test(type) && answer.body !== "") return { body: parsed(answer.body) };
  return { body: answer.body };
}

function events({ headers, body }) {
  const data = [];
  let control = {};
  for (const block of body.split("\n\n").filter((text) => text !== "" && !text.startsWith(":"))) {
    const lines = block.split("\n");
    const name = lines[0].replace(/^event: ?/, "");
    const text = lines.slice(1).map((line) => line.replace(/^data: ?/, "")).join("\n");
    if (name === "control") control = JSON.parse(text);
    else data.push(text);
  }
  const isBase64 = headers["stream-sse-data-encoding"] === "base64";
  const pieces = data.map((text) => (isBase64 ? Buffer.from(text, "base64").toString() : text));
  const { streamNextOffset, streamClosed, upToDate } = control;
  const end = { streamClosed, upToDate: upToDate || streamClosed };
  return { body: end, pieces, next: streamNextOffset };
}

/// What both sides' events carry, whatever pieces it comes in: the same text, or else messages where all of
/// it is arrays. An answer says what its events hold to nobody, and text may look like messages.
function carried(ours, theirs) {
  const texts = [ours, theirs].map((pieces) => pieces?.join(""));
  const arrays = [ours, theirs].map((pieces) => pieces?.map(parsed));
  const areMessages = arrays.every((all) => all?.length > 0 && all.every(Array.isArray));
  return areMessages && texts[0] !== texts[1] ? arrays.map((all) => all.flat()) : texts;
}

function subscription(text) {
  const body = parsed(text) ?? {};
  const streams = (body.streams ?? []).map(({ path, link_type }) => `${path} ${link_type}`).sort();
  const { id, type, pattern, wake_stream, lease_ttl_ms, description } = body;
  return {
    id, type, wake_stream: wake_stream ?? undefined, lease_ttl_ms, url: body.webhook?.url,
    pattern: pattern ?? undefined, description: description ?? undefined, streams,
  };
}

function jwks(text) {
  return parsed(text).keys.map(({ kty, crv, use, alg }) => ({ kty, crv, use, alg }));
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return `no JSON: ${text}`;
  }
}
