// Perfetto's trace processor, compiled to WebAssembly, as a program: its RPC bytes come on standard input and
// its answers go to standard output. The folder that holds it is the one argument.
//
// The bundle is the worker of ui.perfetto.dev. It looks for a worker's scope (`self`), fetches its .wasm, and
// gets a port by its first message; all of that is given to it here.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import vm from "node:vm";

const folder = process.argv[2];
const wasm = readFileSync(join(folder, "trace_processor.wasm"));

globalThis.self = globalThis;
globalThis.WorkerGlobalScope = class {};
Object.defineProperty(globalThis, "location", { value: { href: "https://worker.invalid/" } });
globalThis.XMLHttpRequest = class {
  response = wasm;
  open() {}
  send() {}
};
console.log = console.error; // standard output is for answers alone

// A program that is nothing but a memory is how the bundle asks for a 64-bit one, for which there is no build.
// Any other is the function that it gives to the processor once that has started: before, messages are lost.
let started;
const ready = new Promise((resolve) => (started = resolve));
const Module = WebAssembly.Module;
WebAssembly.Module = function (bytes) {
  if (bytes[8] === 0x05) throw new Error("no 64-bit memory");
  setImmediate(started);
  return new Module(bytes);
};

vm.runInThisContext(readFileSync(join(folder, "engine_bundle.node.js"), "utf8"));
const { port1, port2 } = new MessageChannel();
globalThis.onmessage({ data: port1 });
port2.onmessage = (message) => process.stdout.write(message.data);

await ready;
process.stdin.on("data", (bytes) => port2.postMessage(new Uint8Array(bytes)));
process.stdin.on("end", () => port2.close());
