import { importRules, readRooms } from './rooms.ts';

/** `npm run check`: who may import whom. The rooms are those of docs/rooms.md. */
export default {
  forbidden: [
    ...importRules(readRooms()),
    {
      name: 'no cycles',
      comment: 'move what both need into a file of its own, or hand it in',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'nothing from outside src',
      comment: 'what is published and what runs in the images is src alone',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^(?:test|scripts|bench)/' },
    },
    {
      name: 'only what is installed with the package',
      comment: 'modules that others import are not bundled: list it under "dependencies" in package.json',
      severity: 'error',
      from: { path: '^src/(?:client|protocol)/' },
      to: {
        dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown', 'unknown'],
        dependencyTypesNot: ['type-only'],
      },
    },
  ],
  options: {
    // TypeScript 7 has no API for tools yet, so the sources are parsed by swc. Types count as imports.
    parser: 'swc',
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
  },
};
