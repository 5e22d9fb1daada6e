// What of a request cannot be meant, whatever there is on a server: by the protocol's rules, not by any
// server's answer.

const TOKEN = /^\d{16}_\d{16}$/;
const NUMBER = /^(0|[1-9]\d*)$/;
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;
const PRODUCER = ["Producer-Id", "Producer-Epoch", "Producer-Seq"];

/// Whether a text is one JSON value.
export function isJson(text) {
  try {
    return JSON.parse(text) !== undefined;
  } catch {
    return false;
  }
}

/// Names the fields that are malformed, `body` for content; nothing if all can be meant.
export function malformed(request) {
  if (request.path.startsWith("__ds/")) return [];
  const of = { GET: ofRead, PUT: ofCreate, POST: ofAppend }[request.method];
  return of ? of(request) : [];
}

function ofRead({ query }) {
  const found = [];
  const given = (name) => query.filter(([known]) => known === name).map(([, value]) => value);
  const [offsets, lives] = [given("offset"), given("live")];
  // Named ones are such as the server gave out.
  const isOffset = (value) =>
    typeof value === "object" || value === "-1" || value === "now" || TOKEN.test(value);
  if (offsets.length > 1 || !offsets.every(isOffset)) found.push("offset");
  if (lives.some((value) => value !== "long-poll" && value !== "sse")) found.push("live");
  else if (lives.length > 0 && offsets.length === 0) found.push("offset");
  return found;
}

function ofCreate({ headers, body }) {
  const found = [];
  const breaks = (name, pattern) => headers[name] !== undefined && !pattern.test(headers[name]);
  if (breaks("Stream-TTL", NUMBER)) found.push("Stream-TTL");
  const expires = headers["Stream-Expires-At"];
  if (breaks("Stream-Expires-At", MOMENT) || (expires && Number.isNaN(Date.parse(expires)))) {
    found.push("Stream-Expires-At");
  }
  if (expires !== undefined && headers["Stream-TTL"] !== undefined) found.push("Stream-Expires-At");
  if (breaks("Stream-Forked-From", /^\/v1\/stream\/./)) found.push("Stream-Forked-From");
  const isFork = headers["Stream-Forked-From"] !== undefined;
  const [offset, sub] = [headers["Stream-Fork-Offset"], headers["Stream-Fork-Sub-Offset"]];
  if (offset !== undefined && (!isFork || (typeof offset === "string" && !TOKEN.test(offset)))) {
    found.push("Stream-Fork-Offset");
  }
  const needs = sub !== undefined && sub !== "0" && offset === undefined;
  if (breaks("Stream-Fork-Sub-Offset", NUMBER) || (sub !== undefined && !isFork) || needs) {
    found.push("Stream-Fork-Sub-Offset");
  }
  if (body && saysJson(headers) && !isJson(body)) found.push("body");
  return found;
}

function ofAppend({ headers, body }) {
  const found = [];
  if (headers["Stream-Seq"] === "") found.push("Stream-Seq");
  const given = PRODUCER.filter((name) => headers[name] !== undefined);
  if (given.length > 0) {
    const isNumber = (text) => NUMBER.test(text ?? "") && Number(text) <= Number.MAX_SAFE_INTEGER;
    const [id, ...numbers] = PRODUCER;
    if (!headers[id]?.trim()) found.push(id);
    found.push(...numbers.filter((name) => !isNumber(headers[name])));
  }
  if (body && saysJson(headers) && (!isJson(body) || body.trim() === "[]")) found.push("body");
  return found;
}

function saysJson(headers) {
  return /^application\/json\s*(;|$)/i.test(headers["Content-Type"] ?? "");
}
