// For each entry of `differences.mjs` the fewest requests that show it, the last of them the difference:
// an entry that is no longer needed has no witness that differs, and goes.
import { homeType } from "./generate.mjs";

const [TEXT, JSON_TYPE] = [homeType(0), homeType(1)];
const ofText = { "Content-Type": TEXT };
const ofJson = { "Content-Type": JSON_TYPE };
const producer = (seq, epoch = 0) =>
  ({ "Producer-Id": "p", "Producer-Epoch": String(epoch), "Producer-Seq": String(seq) });
const BEYOND = "9999999999999999_9999999999999999";
const POLL = ["live", "long-poll"];

const get = (query = [], headers = {}) => ({ method: "GET", query, headers });
const post = (headers, body) => ({ method: "POST", headers, body });
const gone = { method: "DELETE" };
const again = (headers, body) => [{ ...gone }, { method: "PUT", headers, body }];
const ofSubscription = (method, tail = "", body = undefined) =>
  ({ method, path: `__ds/subscriptions/w${tail}`, headers: ofJson, body });

/// Requests of an empty stream of text, by the entry that they show.
export const WITNESSES = {
  "caching is said": [get()],
  "what is malformed is refused before anything is looked up": [gone, get([["offset", "x"]])],
  "an append without content is looked up first": [gone, post(ofText, "")],
  "a subscription is looked up before a claim is read":
    [ofSubscription("POST", "/claim", '{"worker":""}')],
  "an empty header is no value": [post({ ...ofText, "Stream-Seq": "" }, "x")],
  "content and headers are looked at before what exists":
    [...again(ofJson), post({ ...ofJson, ...producer(3) }, "{")],
  "what is no JSON is no retry":
    [...again(ofJson), post({ ...ofJson, ...producer(0) }, "1"), post({ ...ofJson, ...producer(0) }, "{")],
  "a close keeps the order of Stream-Seq": [
    post({ ...ofText, "Stream-Seq": "b" }, "x"),
    post({ ...ofText, "Stream-Seq": "a", "Stream-Closed": "true" }, ""),
  ],
  "tags come with content only": [{ method: "HEAD" }],
  "If-None-Match: * matches what is there": [get([], { "If-None-Match": "*" })],
  "one range has one tag": [
    post(ofText, "x"), get(),
    get([["offset", "0000000000000000_0000000000000000"]], { "If-None-Match": { tag: 0 } }),
  ],
  "a live mode that is none is refused": [get([["offset", "-1"], ["live", "true"]])],
  "Stream-Closed is true in any case": [post({ ...ofText, "Stream-Closed": "TRUE" }, "")],
  "a duplicate is told the tail":
    [post({ ...ofText, ...producer(0) }, "x"), post({ ...ofText, ...producer(0) }, "x")],
  "a duplicate closes nothing": [
    post({ ...ofText, ...producer(0) }, "x"),
    post({ ...ofText, ...producer(0), "Stream-Closed": "true" }, ""),
  ],
  "304 says that the stream is closed": [
    post({ ...ofText, "Stream-Closed": "true" }, "x"), get(), get([], { "If-None-Match": { tag: 0 } }),
  ],
  "a poll that brings nothing has no tag":
    [get([["offset", BEYOND]]), get([["offset", BEYOND], POLL], { "If-None-Match": { tag: 0 } })],
  "JSON is JSON in any case": [...again({ "Content-Type": "APPLICATION/json" }), get([["offset", "now"]])],
  "a poll that brings nothing is 204": [get([["offset", BEYOND], POLL])],
  "a cursor comes with the end, too":
    [post({ "Stream-Closed": "true" }, ""), get([["offset", { offset: 0, of: 0 }], POLL])],
  "events that are the end alone say so in their head":
    [post({ ...ofText, "Stream-Closed": "true" }, "x"), get([["offset", "now"], ["live", "sse"]])],
  "no webhooks to IPv6 loopback": [ofSubscription("PUT", "", JSON.stringify(
    { type: "webhook", webhook: { url: "https://[::1]/" }, pattern: "d/*" },
  ))],
  "a subscription that is not there cannot be deleted": [ofSubscription("DELETE")],
};
