// Where this server answers otherwise than the reference server does, and why. A difference that is not
// on this list fails the test. Each entry looks at the request and at what this server answered, so that
// it excuses nothing else; `witnesses.mjs` shows that each is needed, and `differences.test.mjs` what each
// does not excuse.
import { isJson, malformed } from "./malformed.mjs";

const status = (ours, theirs) => (text) => text === `status ${ours}, theirs ${theirs}`;
const given = ({ query }, name) => query.find(([known]) => known === name)?.[1];
const isPoll = (request) => request.method === "GET" && given(request, "live") === "long-poll";
const isAtEnd = (request) => request.method === "GET" && given(request, "live") === "sse"
  && given(request, "offset") === "now";
const isOfStream = ({ path }) => !path.startsWith("__ds/");
const problem = ({ body }) => (isJson(body) ? JSON.parse(body) : {});
const code = (answer) => problem(answer).code;
const says = (answer, name) => answer.headers[name] === "true";
const HEAD_OF_END = [
  'stream-closed "true", theirs undefined', 'stream-up-to-date "true", theirs undefined',
  "stream-next-offset is there: true, theirs false",
];

/// Whether an answer of events is one event, which says that the stream ends at `end`.
function isEndAlone({ body }, end) {
  const [, event] = body.match(/^event: ?control\ndata: ?(\{.*\})\n\n$/) ?? [];
  if (!event) return false;
  const { streamNextOffset, streamClosed } = JSON.parse(event);
  return streamClosed === true && streamNextOffset === end;
}

/// The field for which this server refused a request, as `malformed` names it.
function refusedFor(ours) {
  const { code: name, detail = "" } = problem(ours);
  if (name === "BAD_FIELD") return detail.split(" is not usable")[0];
  if (name === "OFFSET_REQUIRED" || name === "INVALID_OFFSET") return "offset";
  if (name === "BAD_PATH") return "Stream-Forked-From";
  if (name === "INVALID_JSON" || name === "EMPTY_ARRAY") return "body";
  return undefined;
}

/// Whether this server refused a request for what is malformed in it.
function isRefusedRightly(request, ours) {
  return ours.status === 400 && malformed(request).includes(refusedFor(ours));
}

/// Whether an append has no content, and is no close alone, or content of no type.
function lacksContent({ headers, body }) {
  if (body) return headers["Content-Type"] === undefined;
  return headers["Stream-Closed"]?.toLowerCase() !== "true";
}

/// What this server says about keeping an answer of success to a read, or to what is not to be kept.
function caching(request, ours) {
  const isLater = given(request, "offset") === "now" || ours.status === 204;
  const isRead = request.method === "GET" && isOfStream(request);
  return isRead && !isLater ? "public, max-age=60, stale-while-revalidate=300" : "no-store";
}

// Each has what it is called, why it is so, and how it is known: from the request, the difference, both
// answers, and what the request's words stood for: the tag that this server had given, with its offset, and
// the offset that was asked for now.
const LIST = [
  {
    id: "caching is said",
    why: "The protocol asks for Cache-Control on reads; the reference server leaves it out.",
    is: (request, text, [ours]) =>
      text === `cache-control ${JSON.stringify(caching(request, ours))}, theirs undefined`,
  },
  {
    id: "what is malformed is refused before anything is looked up",
    why: "A malformed query or header is 400, whether or not the stream exists.",
    is: (request, text, [ours]) =>
      (status(400, 404)(text) || status(400, 410)(text)) && isRefusedRightly(request, ours),
  },
  {
    id: "an append without content is looked up first",
    why: "404, 410, or 409 of a closed stream, tells more than 400; closed comes first (5.2).",
    is: (request, text, [ours]) => request.method === "POST" && isOfStream(request)
      && lacksContent(request)
      && ((status(404, 400)(text) && code(ours) === "STREAM_NOT_FOUND")
        || (status(410, 400)(text) && code(ours) === "STREAM_GONE")
        || (status(409, 400)(text) && code(ours) === "STREAM_CLOSED" && says(ours, "stream-closed"))),
  },
  {
    id: "a subscription is looked up before a claim is read",
    why: "404 tells more than that a worker has no name.",
    is: ({ method, path, body }, text, [ours]) => method === "POST" && path.endsWith("/claim")
      && body === '{"worker":""}' && status(404, 400)(text) && code(ours) === "SUBSCRIPTION_NOT_FOUND",
  },
  {
    id: "an empty header is no value",
    why: "Stream-TTL is digits, Stream-Forked-From a path; an empty Stream-Seq orders nothing.",
    is: (request, text, [ours]) => /^status 400, theirs (20[014]|409)$/.test(text)
      && ["Stream-TTL", "Stream-Seq", "Stream-Forked-From"].includes(refusedFor(ours))
      && request.headers[refusedFor(ours)] === "" && isRefusedRightly(request, ours),
  },
  {
    id: "content and headers are looked at before what exists",
    why: "A body that is no JSON, or headers that cannot be meant, are 400 for a producer out of order or "
      + "of an old epoch and for a stream that is there, too. Nothing changes either way.",
    is: (request, text, [ours]) => (request.method === "PUT" || request.method === "POST")
      && (status(400, 409)(text) || status(400, 403)(text)) && isRefusedRightly(request, ours),
  },
  {
    id: "what is no JSON is no retry",
    why: "It cannot have been taken before: not as the same create, nor as a producer's duplicate, by a "
      + "stream that is closed now either.",
    is: (request, text, [ours]) => malformed(request).includes("body")
      && ((request.method === "PUT" && status(400, 200)(text) && refusedFor(ours) === "body")
        || (request.headers["Producer-Id"] !== undefined
          && ((status(400, 204)(text) && refusedFor(ours) === "body")
            || (status(409, 204)(text) && code(ours) === "STREAM_CLOSED")))),
  },
  {
    id: "a close keeps the order of Stream-Seq",
    why: "Sequence regressions are refused (section 12.6); theirs does not look at them where nothing is "
      + "appended.",
    is: ({ method, headers, body }, text, [ours]) => method === "POST" && !body
      && headers["Stream-Closed"] === "true" && headers["Stream-Seq"] !== undefined
      && status(409, 204)(text) && code(ours) === "SEQUENCE_REGRESSION",
  },
  {
    id: "tags come with content only",
    why: "HEAD names no range, so there is nothing to tag.",
    is: ({ method }, text) => method === "HEAD" && text === "etag is there: false, theirs true",
  },
  {
    id: "If-None-Match: * matches what is there",
    why: "RFC 9110, 13.1.2.",
    is: ({ method, headers }, text) =>
      method === "GET" && headers["If-None-Match"] === "*" && status(304, 200)(text),
  },
  {
    id: "one range has one tag",
    why: "A tag names stream, range and end. Theirs names the offset as it was asked for, so that -1 "
      + "and the first offset have two.",
    is: ({ method, headers }, text, [ours], { known, offset }) => method === "GET"
      && status(304, 200)(text) && headers["If-None-Match"]?.tag !== undefined && known !== undefined
      && ours.headers.etag === known.etag && known.offset !== offset,
  },
  {
    id: "a live mode that is none is refused",
    why: "Who asks for live=x would take an answer that ends for the end of the stream.",
    is: (request, text, [ours]) => request.method === "GET" && /^status 400, theirs (200|304)$/.test(text)
      && refusedFor(ours) === "live" && isRefusedRightly(request, ours),
  },
  {
    id: "Stream-Closed is true in any case",
    why: "Section 4.1; the reference server takes lower case only.",
    // Asked again with `true`, theirs must answer as this one did: `run.mjs` sees to that.
    is: ({ method, headers, body }, text) => headers["Stream-Closed"] === "TRUE" && (
      (method === "PUT" && (status(409, 200)(text) || status(200, 409)(text)))
      || (method === "POST" && !body && /^status (204|40[349]), theirs 400$/.test(text))
      || (text === 'stream-closed "true", theirs undefined' && (method === "PUT" || method === "POST"))),
  },
  {
    id: "a duplicate is told the tail",
    why: "A producer that goes on needs it; the protocol leaves it open.",
    is: ({ method, headers }, text, [ours]) => method === "POST" && headers["Producer-Id"] !== undefined
      && ours.status === 204 && ours.headers["producer-seq"] !== undefined
      && text === "stream-next-offset is there: true, theirs false",
  },
  {
    id: "a duplicate closes nothing",
    why: "A producer's number stands for what it was first used for. Theirs says that the stream is "
      + "closed, though it is not.",
    is: ({ method, headers, body }, text, [ours]) => method === "POST" && !body
      && headers["Producer-Id"] !== undefined && headers["Stream-Closed"] === "true" && ours.status === 204
      && ours.headers["producer-seq"] !== undefined && text === 'stream-closed undefined, theirs "true"',
  },
  {
    id: "304 says that the stream is closed",
    why: "As the answer would that it stands for (RFC 9110, 15.4.5).",
    is: ({ method }, text, [ours]) => method === "GET" && ours.status === 304
      && text === 'stream-closed "true", theirs undefined',
  },
  {
    id: "a poll that brings nothing has no tag",
    why: "There is nothing yet that a tag could name, so it waits. Theirs answers 304 at once, unless the "
      + "offset is the tail as it was given out.",
    is: (request, text, [ours]) => isPoll(request) && request.headers["If-None-Match"] !== undefined
      && status(204, 304)(text) && says(ours, "stream-up-to-date"),
  },
  {
    id: "JSON is JSON in any case",
    why: "Types are compared without case: an empty answer is an empty array.",
    is: ({ method }, text, [ours]) => method === "GET" && text === 'body [], theirs ""'
      && /^application\/json/i.test(ours.headers["content-type"])
      && !/^application\/json/.test(ours.headers["content-type"]),
  },
  {
    id: "a poll that brings nothing is 204",
    why: "Section 5.7: it waits wherever there is nothing yet. Theirs answers 200 at once, with nothing, "
      + "unless the offset is the tail as it was given out.",
    is: (request, text, [ours, theirs]) => isPoll(request) && status(204, 200)(text)
      && says(ours, "stream-up-to-date") && (theirs.body === "[]" || theirs.body === ""),
  },
  {
    id: "a cursor comes with the end, too",
    why: "Section 5.7 lets it be left out.",
    is: (request, text, [ours]) => isPoll(request) && says(ours, "stream-closed")
      && text === "stream-cursor is there: true, theirs false",
  },
  {
    id: "events that are the end alone say so in their head",
    why: "Who asks for what is to come of a closed stream hears at once that nothing will, as without "
      + "events.",
    is: (request, text, [ours]) => isAtEnd(request) && HEAD_OF_END.includes(text) && ours.status === 200
      && says(ours, "stream-closed") && says(ours, "stream-up-to-date")
      && isEndAlone(ours, ours.headers["stream-next-offset"]),
  },
  {
    id: "no webhooks to IPv6 loopback",
    why: "The development switch allows localhost and 127.0.0.0/8 only.",
    is: ({ method, body }, text, [ours]) => method === "PUT" && status(400, 201)(text)
      && code(ours) === "WEBHOOK_URL_REJECTED" && JSON.parse(body).webhook?.url === "https://[::1]/",
  },
  {
    id: "a subscription that is not there cannot be deleted",
    why: "404 as for streams.",
    is: ({ method, path }, text, [ours]) => method === "DELETE" && status(404, 204)(text)
      && /^__ds\/subscriptions\/[^/]+(\/streams\/.+)?$/.test(path) && code(ours) === "SUBSCRIPTION_NOT_FOUND",
  },
];

/// Names the entry that explains a difference; nothing if none does.
export function explain(request, text, answers, stood = {}) {
  return LIST.find((entry) => entry.is(request, text, answers, stood))?.id;
}

/// Names all entries.
export const IDS = LIST.map(({ id }) => id);
