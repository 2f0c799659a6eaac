import { execFileSync, spawnSync } from 'node:child_process';
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureHelm } from '../../scripts/helm/setup.ts';
import { packTarball, withoutNpm } from '../../scripts/pack.ts';
import type { Bom } from '../../scripts/release/sbom.ts';

/**
 * `npm run release` in a clone whose only commit is this checkout as it is now. The command itself installs the package
 * in an empty folder and sends it a request; it ends with an error where that does not work.
 */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'release-'));
const clone = join(folder, 'clone');
const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
const made = (path: string) => join(clone, 'release', path);

function git(...args: string[]): string {
  const author = ['-c', 'user.name=test', '-c', 'user.email=test@example.com'];
  return execFileSync('git', [...author, ...args], { cwd: clone, encoding: 'utf8' });
}

/** The check is a tier of its own. */
function release(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(
    'npm',
    ['run', '--silent', 'release', '--', '--checked', ...args],
    {
      cwd: clone,
      env: withoutNpm(process.env),
      encoding: 'utf8',
    },
  );
  return { status, stdout, stderr };
}

beforeAll(() => {
  const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  for (const file of listed.split('\0').filter(Boolean)) {
    mkdirSync(dirname(join(clone, file)), { recursive: true });
    cpSync(join(ROOT, file), join(clone, file), { force: true });
  }
  // The Python packages that the command needs are installed once for all clones.
  mkdirSync(join(ROOT, '.worker-vllm/release-tools'), { recursive: true });
  mkdirSync(join(clone, '.worker-vllm'));
  execFileSync('ln', ['-s', join(ROOT, '.worker-vllm/release-tools'), join(clone, '.worker-vllm/')]);
  // Links where the file system lets them be, copies elsewhere.
  execFileSync('sh', [
    '-c',
    'cp -al "$0" "$1" 2>/dev/null || cp -a "$0" "$1"',
    join(ROOT, 'node_modules'),
    clone,
  ]);
  git('init', '--quiet');
  git('add', '--all');
  git('commit', '--quiet', '--message', 'all');
  const { status, stdout, stderr } = release(manifest.version);
  expect(status, stderr).toBe(0);
  expect(stdout).toContain(`npm publish release/npm/worker-vllm-${manifest.version}.tgz`);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('npm run release', () => {
  it('writes the sums of all other files of the folder', () => {
    const { version } = manifest;
    const sums = readFileSync(made('SHA256SUMS'), 'utf8');
    expect([...sums.matchAll(/^[0-9a-f]{64} {2}(.+)$/gm)].map(([, path]) => path)).toEqual([
      'NOTES.md',
      `helm/worker-vllm-${version}.tgz`,
      `npm/worker-vllm-${version}.tgz`,
      `python/worker_vllm-${version}-py3-none-any.whl`,
      `python/worker_vllm-${version}.tar.gz`,
      `sbom/worker-vllm-${version}.npm.cdx.json`,
    ]);
    execFileSync('sha256sum', ['--check', '--strict', '--quiet', 'SHA256SUMS'], { cwd: made('') });
  });

  it('makes the same files of the same commit elsewhere', () => {
    const names = ['npm', 'helm'].map((part) => `${part}/worker-vllm-${manifest.version}.tgz`);
    const elsewhere = packTarball(folder).path;
    expect(readFileSync(elsewhere).equals(readFileSync(made(names[0]!)))).toBe(true);
  });

  it('lists each dependency of production with its licence, and what the bundles hold as required', () => {
    const bom: Bom = JSON.parse(
      readFileSync(made(`sbom/worker-vllm-${manifest.version}.npm.cdx.json`), 'utf8'),
    );
    expect(bom).toMatchObject({ bomFormat: 'CycloneDX', metadata: { component: { name: 'worker-vllm' } } });
    const scopes = new Map(bom.components.map(({ name, version, scope }) => [`${name}@${version}`, scope]));
    const direct = Object.entries<string>(manifest.dependencies).map((entry) => entry.join('@'));
    expect(direct.filter((ref) => !scopes.has(ref))).toEqual([]);
    expect(bom.components.filter(({ licenses }) => !licenses?.length)).toEqual([]);
    const links = bom.components.flatMap(({ externalReferences = [] }) => externalReferences);
    expect(links.filter(({ url }) => !URL.canParse(url))).toEqual([]);
    const tarball = made(`npm/worker-vllm-${manifest.version}.tgz`);
    const texts = execFileSync('tar', ['-xzOf', tarball, 'package/dist/programs/licenses.txt'], {
      encoding: 'utf8',
    });
    const bundled = texts
      .split('\n----\n\n')
      .map((text) => text.split('\n', 1)[0]!.replace(/ (?=\S+$)/, '@'));
    expect(bundled.length).toBeGreaterThan(20);
    expect(bundled.filter((ref) => scopes.get(ref) !== 'required')).toEqual([]);
  });

  it('packs a chart that Helm loads from the archive', async () => {
    const render = await ensureHelm(join(ROOT, '.worker-vllm'));
    const { manifests } = render(made(`helm/worker-vllm-${manifest.version}.tgz`), {});
    expect(Object.keys(manifests).length).toBeGreaterThan(0);
  });

  it('tells in its notes what changed, and how to get there', () => {
    const notes = readFileSync(made('NOTES.md'), 'utf8');
    expect(notes).toMatch(/^# worker-vllm [\d.]+\n/);
    expect(notes).toContain('## Upgrading');
    const links = [...notes.matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, path]) => path!);
    const listed = git('ls-files').split('\n');
    expect(
      links.filter((path) => !listed.some((file) => file === path || file.startsWith(`${path}/`))),
    ).toEqual([]);
  });
});

describe('npm run release refuses in one sentence', () => {
  const refused = (...args: string[]) => {
    const { status, stderr } = release(...args);
    expect(status).toBe(2);
    expect(stderr.trim().split('\n')).toHaveLength(1);
    return stderr;
  };

  it('a version that the files do not have', () => {
    expect(refused('99.0.0')).toContain(`package.json says version ${manifest.version}, not 99.0.0`);
  });

  it('a checkout that differs from its commit', () => {
    appendFileSync(join(clone, 'README.md'), '\n');
    expect(refused()).toContain('README.md');
    git('checkout', '--quiet', 'README.md');
  });

  it('a chart of another version', () => {
    const chart = join(clone, 'deploy/helm/worker-vllm/Chart.yaml');
    writeFileSync(chart, readFileSync(chart, 'utf8').replace(/^version: .*$/m, 'version: 99.0.0'));
    git('commit', '--quiet', '--all', '--message', 'another version');
    expect(refused()).toContain('deploy/helm/worker-vllm/Chart.yaml says version 99.0.0');
    git('reset', '--quiet', '--hard', 'HEAD~1');
  });
});
