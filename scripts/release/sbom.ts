import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../src/process/index.ts';
import { INSTALLED, withoutNpm } from '../pack.ts';

/** A bill of materials in CycloneDX 1.5 (https://cyclonedx.org/docs/1.5/json/), as far as it is looked at here. */
export interface Bom {
  serialNumber: string;
  metadata: { timestamp: string; component: Component };
  components: Component[];
  dependencies: { ref: string; dependsOn?: string[] }[];
}

interface Component {
  'bom-ref': string;
  type: string;
  name: string;
  version: string;
  /** `excluded`: it is among the dependencies, and no program holds or installs it. */
  scope?: 'required' | 'excluded';
  purl?: string;
  licenses?: unknown[];
  externalReferences?: { type: string; url: string }[];
  properties?: unknown[];
}

/**
 * Lists what package.json's dependencies bring along, each with its licence, and tells what ships from what does not: a
 * bundle holds it, or it is installed beside the package.
 * @param committedAt its date, seconds since 1970: the list depends on the commit alone
 * @throws UserError naming a package that has no licence, or that a bundle holds without being a dependency
 */
export function packageBom(root: string, committedAt: number): Bom {
  const printed = execFileSync('npm', ['sbom', '--sbom-format=cyclonedx'], {
    cwd: root,
    env: withoutNpm(process.env),
    encoding: 'utf8',
    maxBuffer: 64e6,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const bom: Bom = JSON.parse(printed);
  const ofProduction = productionPackages(readFileSync(join(root, 'package-lock.json'), 'utf8'));
  const isListed = (ref: string) => ofProduction.has(ref) || ref === bom.metadata.component['bom-ref'];
  bom.components = bom.components.filter(({ 'bom-ref': ref }) => isListed(ref));
  bom.dependencies = bom.dependencies
    .filter(({ ref }) => isListed(ref))
    .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: dependsOn.filter(isListed) }));
  const shipped = new Set([
    ...bundled(readFileSync(join(root, 'dist/programs/licenses.txt'), 'utf8')),
    ...withDependencies(bom, INSTALLED),
  ]);
  const listed = new Set(bom.components.map(({ 'bom-ref': ref }) => ref));
  const unlisted = [...shipped].find((ref) => !listed.has(ref));
  if (unlisted) {
    throw new UserError(
      `The programs hold ${unlisted}, which is none of the dependencies in package.json: name it there.`,
    );
  }
  for (const component of bom.components) {
    // npm passes on what packages name, such as git@example.com:a/b, which the form does not allow.
    component.externalReferences = component.externalReferences?.filter(({ url }) => URL.canParse(url));
    component.scope = shipped.has(component['bom-ref']) ? 'required' : 'excluded';
    if (!component.licenses?.length) {
      throw new UserError(
        `${component['bom-ref']} names no licence: find out which it has, or do without it.`,
      );
    }
  }
  bom.components.sort((a, b) => (a['bom-ref'] < b['bom-ref'] ? -1 : 1));
  // npm names the project after its folder, and the package is not private.
  Object.assign(bom.metadata.component, { type: 'application', name: 'worker-vllm', properties: [] });
  bom.metadata.timestamp = new Date(committedAt * 1000).toISOString();
  bom.serialNumber = '';
  bom.serialNumber = serialNumberOf(JSON.stringify(bom));
  return bom;
}

/**
 * What a lock file holds that is not for development alone, as `name@version`. `npm sbom --omit=dev` also leaves out what
 * both need (npm 11).
 */
function productionPackages(lock: string): Set<string> {
  const packages: Record<string, { version: string; dev?: true }> = JSON.parse(lock).packages;
  const refs = Object.entries(packages).flatMap(([path, { version, dev }]) =>
    path === '' || dev ? [] : [`${path.slice(path.lastIndexOf('node_modules/') + 13)}@${version}`],
  );
  return new Set(refs);
}

/** The packages of which a list of licences has texts, as `name@version`. */
function bundled(licenses: string): string[] {
  return licenses
    .split('\n----\n\n')
    .map((text) => text.slice(0, text.indexOf('\n')).replace(/ (?=\S+$)/, '@'));
}

/** The references of some packages and of all that they need. */
function withDependencies({ components, dependencies }: Bom, names: readonly string[]): string[] {
  const needs = new Map(dependencies.map(({ ref, dependsOn = [] }) => [ref, dependsOn]));
  const found = new Set<string>();
  const add = (ref: string) => {
    if (found.has(ref)) return;
    found.add(ref);
    for (const needed of needs.get(ref) ?? []) add(needed);
  };
  for (const { 'bom-ref': ref, name } of components) if (names.includes(name)) add(ref);
  return [...found];
}

/** A UUID in the form of version 8 (RFC 9562): the same for the same text. */
function serialNumberOf(text: string): string {
  const hex = createHash('sha256').update(text).digest('hex');
  return `urn:uuid:${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
