// Where this server answers otherwise than the reference server does, and why. A difference that is not
// on this list fails the test.

const status = (ours, theirs) => (text) => text === `status ${ours}, theirs ${theirs}`;
const isPoll = ({ query }) =>
  query.some(([name, value]) => name === "live" && value === "long-poll");

function isJson(text) {
  try {
    return JSON.parse(text) !== undefined;
  } catch {
    return false;
  }
}

// Each has what it is called, why it is so, and how it is known.
const LIST = [
  {
    id: "caching is said",
    why: "The protocol asks for Cache-Control on reads; the reference server leaves it out.",
    is: (_, text) => text.startsWith("cache-control") && text.endsWith("theirs undefined"),
  },
  {
    id: "what is malformed is refused before anything is looked up",
    why: "A malformed query or header is 400, whether or not the stream exists.",
    is: (_, text) => status(400, 404)(text) || status(400, 410)(text),
  },
  {
    id: "an append without content is looked up first",
    why: "404, 410, or 409 of a closed stream, tells more than 400; closed comes first (5.2).",
    is: ({ method }, text) => method === "POST" && /^status (404|409|410), theirs 400$/.test(text),
  },
  {
    id: "content and headers are looked at before what exists",
    why: "A body that is no JSON, or headers that cannot be meant, are 400 for a duplicate, for a "
      + "producer out of order, and for a stream that is there, too. Nothing changes either way.",
    is: ({ method }, text, [ours]) =>
      (method === "PUT" || method === "POST") && /^status 400, theirs (200|204|409)$/.test(text)
      && /"(INVALID_JSON|EMPTY_ARRAY|BAD_FIELD|BAD_PATH)"/.test(ours.body),
  },
  {
    id: "what is no JSON is no retry",
    why: "It cannot have been taken before, by a stream that is closed now either.",
    is: ({ headers, body }, text, [ours]) => status(409, 204)(text)
      && ours.body.includes("STREAM_CLOSED") && /json/i.test(headers["Content-Type"]) && !isJson(body),
  },
  {
    id: "tags come with content only",
    why: "HEAD names no range, so there is nothing to tag.",
    is: ({ method }, text) => method === "HEAD" && text.startsWith("etag is there: false"),
  },
  {
    id: "If-None-Match: * matches what is there",
    why: "RFC 9110, 13.1.2.",
    is: ({ headers }, text) => headers["If-None-Match"] === "*" && status(304, 200)(text),
  },
  {
    id: "one range has one tag",
    why: "A tag names stream, range and end. Theirs names the offset as it was asked for, so that -1 "
      + "and the first offset have two.",
    is: ({ headers }, text) => typeof headers["If-None-Match"] === "object" && status(304, 200)(text),
  },
  {
    id: "an empty header is no value",
    why: "Stream-TTL is digits, Stream-Forked-From a path; an empty Stream-Seq orders nothing.",
    is: ({ headers }, text) => text.startsWith("status 400, ")
      && ["Stream-TTL", "Stream-Seq", "Stream-Forked-From"].some((name) => headers[name] === ""),
  },
  {
    id: "a live mode that is none is refused",
    why: "Who asks for live=x would take an answer that ends for the end of the stream.",
    is: ({ method }, text, [ours]) =>
      method === "GET" && text.startsWith("status 400, ") && ours.body.includes("long-poll or sse"),
  },
  {
    id: "Stream-Closed is true in any case",
    why: "Section 4.1; the reference server takes lower case only.",
    is: ({ headers }, text) => headers["Stream-Closed"] === "TRUE"
      && (text.startsWith("stream-closed") || /^status (200|201|204|409), theirs (200|400|409)$/.test(text)),
  },
  {
    id: "a duplicate is told the tail",
    why: "A producer that goes on needs it; the protocol leaves it open.",
    is: ({ method }, text, [ours]) =>
      method === "POST" && ours.status === 204 && text === "stream-next-offset is there: true, theirs false",
  },
  {
    id: "a duplicate closes nothing",
    why: "A producer's number stands for what it was first used for. Theirs closes the stream.",
    is: ({ method, headers }, text, [ours]) => method === "POST" && headers["Producer-Id"] !== undefined
      && ours.status === 204 && text === 'stream-closed undefined, theirs "true"',
  },
  {
    id: "304 says that the stream is closed",
    why: "As the answer would that it stands for (RFC 9110, 15.4.5).",
    is: (_, text, [ours]) => ours.status === 304 && text.startsWith('stream-closed "true"'),
  },
  {
    id: "a poll has no tag",
    why: "What it waits for is not there yet. Theirs compares what was there.",
    is: (request, text) => isPoll(request) && /^status 20[04], theirs 304$/.test(text),
  },
  {
    id: "JSON is JSON in any case",
    why: "Types are compared without case: an empty answer is an empty array.",
    is: (_, text, [ours]) =>
      text === 'body [], theirs ""' && /json/i.test(ours.headers["content-type"] ?? ""),
  },
  {
    id: "a poll that brings nothing is 204",
    why: "Section 5.7: it waits wherever there is nothing yet. Theirs answers 200 at once, with nothing, "
      + "unless the offset is the tail as it was given out.",
    is: (request, text, [, theirs]) => isPoll(request)
      && status(204, 200)(text) && (theirs.body === "[]" || theirs.body === ""),
  },
  {
    id: "a cursor comes with the end, too",
    why: "Section 5.7 lets it be left out.",
    is: (request, text, [ours]) => isPoll(request)
      && text === "stream-cursor is there: true, theirs false" && ours.headers["stream-closed"] === "true",
  },
  {
    id: "no webhooks to IPv6 loopback",
    why: "The development switch allows localhost and 127.0.0.0/8 only.",
    is: ({ body }, text) => status(400, 201)(text) && String(body).includes("[::1]"),
  },
  {
    id: "a subscription that is not there cannot be deleted",
    why: "404 as for streams.",
    is: ({ method, path }, text) =>
      method === "DELETE" && path.startsWith("__ds/subscriptions/") && status(404, 204)(text),
  },
];

/// Names the entry that explains a difference; nothing if none does.
export function explain(request, text, answers) {
  return LIST.find((entry) => entry.is(request, text, answers))?.id;
}

/// Names all entries.
export const IDS = LIST.map(({ id }) => id);
