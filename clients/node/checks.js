// What the programs of this folder share: a line for each check, and ways to see failures.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

/** The version of an installed package. */
export function versionOf(name) {
  const file = new URL(`./node_modules/${name}/package.json`, import.meta.url);
  return JSON.parse(readFileSync(file, "utf8")).version;
}

/** Runs `body`, which must end within ten seconds, and prints the line of the check. */
export async function check(name, body) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("not at its end after ten seconds")), 10_000);
  });
  try {
    await Promise.race([body(), late]);
    console.log(`ok ${name}`);
  } catch (error) {
    const seen = `${error.code ?? ""} ${error.message}`.replaceAll(/\s+/g, " ").trim();
    console.log(`not ok ${name}: ${seen}`);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits for an error with this SQLSTATE, or code of the client, and returns it. */
export async function fails(code, promise) {
  let error;
  try {
    await promise;
  } catch (caught) {
    error = caught;
  }
  assert.ok(error, `expected ${code}, saw no error`);
  assert.equal(error.code, code, `expected ${code}, saw ${error.code} ${error.message}`);
  return error;
}

/** Waits until `holds` does, for five seconds at most. */
export async function until(holds) {
  for (let i = 0; i < 250 && !holds(); i++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.ok(holds(), `not so after five seconds: ${holds}`);
}
