// What is declared is there, and what is there is declared. Run by scripts/types.

import assert from 'node:assert/strict';
import {createRequire} from 'node:module';
import {test} from 'node:test';
import {fileURLToPath} from 'node:url';

const ts = createRequire(process.env.NODE_TOOLS + '/')('typescript');

for (const name of ['index', 'claude']) {
  test(name, async () => {
    const file = fileURLToPath(new URL(`../${name}.d.mts`, import.meta.url));
    const real = await import(`../${name}.mjs`);
    const declared = new Map(); // by name of a value: the members of a class
    ts.createSourceFile(file, ts.sys.readFile(file), ts.ScriptTarget.Latest).forEachChild((n) => {
      if (ts.isFunctionDeclaration(n)) declared.set(n.name.text, null);
      if (ts.isVariableStatement(n)) declared.set(n.declarationList.declarations[0].name.text, null);
      if (ts.isClassDeclaration(n)) declared.set(n.name.text, n.members.filter((m) => ts.isMethodDeclaration(m)).map((m) => m.name.text));
    });
    assert.deepEqual([...declared.keys()].sort(), Object.keys(real).sort());
    for (const [type, members] of declared) {
      for (const m of members ?? []) assert.equal(typeof real[type].prototype[m], 'function', `${type}.${m}`);
    }
  });
}
