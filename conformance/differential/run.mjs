// Sends the same requests to two servers, one by one, and collects in what their answers differ. A
// stream whose answers differed is given up: what follows is asked of another name.
import { Client } from "./client.mjs";
import { differences, Offsets } from "./compare.mjs";
import { explain } from "./differences.mjs";
import { Generator, homeType, SLOTS } from "./generate.mjs";
import { Dice } from "./random.mjs";

/// What one server has said that later requests bring back.
class Memory {
  tags = [];
  tokens = {};
  wakes = {};
}

/// Gives { explained: {id: count}, unexplained: [text], statuses: {"PUT 201": count} }.
export async function compare({ seed, count, bases }) {
  const clients = bases.map((base) => new Client(base));
  const memories = bases.map(() => new Memory());
  const generator = new Generator(new Dice(seed));
  let renamed = 0;
  const names = Array.from({ length: SLOTS }, (_, slot) => `d/${seed}-${slot}`);
  let offsets = names.map(() => new Offsets());
  const rename = (slot) => {
    renamed += 1;
    names[slot] = `d/${seed}-${slot}-${renamed}`;
    offsets[slot] = new Offsets();
    generator.forget(slot);
  };
  for (const [slot, name] of names.entries()) {
    await Promise.all(clients.map((client) => make(client, name, slot)));
  }
  const result = { explained: {}, unexplained: [], statuses: {} };
  for (let number = 0; number < count; number += 1) {
    const request = generator.next(names);
    if (request.isFresh) {
      // What was there is deleted, and stays where it has forks.
      await Promise.all(clients.map((client) => remove(client, names[request.slot])));
      rename(request.slot);
      request.path = names[request.slot];
    }
    const answers = await Promise.all(
      clients.map((client, side) => client.ask(filled(request, memories[side], offsets, side))),
    );
    const kind = `${request.path.startsWith("__ds/") ? "__ds " : ""}${request.method}`;
    const status = `${kind} ${answers[0].status}`;
    result.statuses[status] = (result.statuses[status] ?? 0) + 1;
    remember(request, answers, memories);
    if (request.method === "DELETE" && answers.every(({ status }) => status < 300)) {
      offsets[request.slot] = new Offsets();
    }
    const found = differences(request, ...answers, offsets[request.slot]);
    for (const text of found) {
      const id = explain(request, text, answers);
      if (id) result.explained[id] = (result.explained[id] ?? 0) + 1;
      else {
        const sides = answers.map(({ status, body }) => `${status} ${body.slice(0, 200)}`).join(" | ");
        result.unexplained.push(`${number}: ${JSON.stringify(request)}: ${text} | ${sides}`);
      }
    }
    // What no state depends on is no reason to begin anew.
    const isStateful = request.method !== "GET" && request.method !== "HEAD";
    if (found.length > 0 && (isStateful || found.some((text) => !text.startsWith("cache-control")))) {
      const side = request.path.startsWith("__ds/") ? await drop(clients, request) : request.slot;
      if (side !== undefined) {
        await Promise.all(clients.map((client) => remove(client, names[side])));
        rename(side);
        await Promise.all(clients.map((client) => make(client, names[side], side)));
      }
    }
  }
  clients.forEach((client) => client.close());
  return result;
}

/// Makes an empty stream of its slot's kind.
function make(client, name, slot) {
  return client.ask({ method: "PUT", target: target(name), headers: { "Content-Type": homeType(slot) } });
}

/// Takes away what would go on otherwise for each server.
function remove(client, name) {
  return client.ask({ method: "DELETE", target: target(name) });
}

/// Deletes the subscription that a request was about.
async function drop(clients, request) {
  const [, , id] = request.path.split("/");
  if (id) {
    for (const client of clients) {
      await client.ask({ method: "DELETE", target: target(`__ds/subscriptions/${id}`) });
    }
  }
  return undefined;
}

function target(path, query = "") {
  return `/v1/stream/${path}${query}`;
}

/// Spells a request for one server.
function filled(request, memory, offsets, side) {
  const value = (given) => {
    if (typeof given !== "object" || given === null) return given;
    if ("offset" in given) {
      const { pairs } = offsets[given.of];
      return pairs.length === 0 ? "-1" : pairs[given.offset % pairs.length][side];
    }
    if ("tag" in given) return memory.tags[given.tag] ?? '"none"';
    if ("token" in given) return `Bearer ${memory.tokens[given.token] ?? "none"}`;
    throw new Error(`what is ${JSON.stringify(given)}`);
  };
  const pairs = request.query.map(([name, given]) => `${name}=${value(given)}`);
  const headers = {};
  for (const [name, given] of Object.entries(request.headers)) {
    if (given !== undefined) headers[name] = value(given);
  }
  let body = request.body;
  if (typeof body === "object") {
    const wake = memory.wakes[body.wake] ?? { wake_id: "w", generation: 1 };
    body = JSON.stringify({ ...wake, done: body.done });
  }
  const query = pairs.length > 0 ? `?${pairs.join("&")}` : "";
  return { method: request.method, target: target(request.path, query), headers, body };
}

function remember(request, answers, memories) {
  answers.forEach((answer, side) => {
    const memory = memories[side];
    if (answer.headers.etag) memory.tags[request.slot] = answer.headers.etag;
    if (request.path.endsWith("/claim") && answer.status === 200) {
      const [, , id] = request.path.split("/");
      const { token, wake_id, generation } = JSON.parse(answer.body);
      memory.tokens[id] = token;
      memory.wakes[id] = { wake_id, generation };
    }
  });
}
