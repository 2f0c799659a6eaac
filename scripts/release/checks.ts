import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { STATE_VERSION } from '../../src/durable/ports.ts';
import { UserError } from '../../src/process/index.ts';

/** The facts about the commit that a release is made of. */
export interface Source {
  version: string;
  /** The commit of the checkout. */
  commit: string;
  /** When the commit was made, seconds since 1970: the date of all that is made of it. */
  committedAt: number;
  /** False while the heading in CHANGELOG.md still says "unreleased". */
  isDated: boolean;
}

/** The state of the checkout, which is checked before a release begins. */
export interface Facts {
  /** The version that was asked for; null: none was. */
  asked: string | null;
  /** The version in package.json, which the other files must name too. */
  version: string;
  /** The versions that the other files say, by path; null: they say nothing that can be read. */
  others: Record<string, string | null>;
  /** The files that differ from the commit, as `git status --porcelain` says it. */
  changes: string[];
  commit: string;
  /** The commit that has the tag of this version; null: none has. */
  tagged: string | null;
  /** The number of the state that the newest section of CHANGELOG.md names; null: it names none. */
  changelogState: number | null;
  /** The number of the state in the sources. */
  state: number;
}

/** Returns why no release can be made, as one sentence that says what to do, or null. */
export function refusalOf(facts: Facts): string | null {
  const { asked, version, others, changes, tagged, commit, changelogState, state } = facts;
  const [first] = changes;
  if (first !== undefined) {
    const more = changes.length > 1 ? ` and ${changes.length - 1} more` : '';
    return `The checkout differs from its commit (${first.trim()}${more}): commit or remove that first.`;
  }
  if (asked !== null && asked !== version) {
    return `package.json says version ${version}, not ${asked}: write ${asked} there (npm version ${asked} --no-git-tag-version), and commit.`;
  }
  const other = Object.entries(others).find(([, found]) => found !== version);
  if (other) {
    const [path, found] = other;
    return `${path} says version ${found ?? 'nothing'} where package.json says ${version}: make both the same, and commit.`;
  }
  if (changelogState !== state) {
    return `CHANGELOG.md says that the number of the state is ${changelogState ?? 'nothing'} where STATE_VERSION is ${state}: write ${state} into the section of ${version}, and commit.`;
  }
  if (tagged !== null && tagged !== commit) {
    return `Version ${version} is the tag v${version} of another commit (${tagged.slice(0, 12)}): check that out, or raise the version.`;
  }
  return null;
}

/**
 * Looks at a checkout.
 * @param asked the version that was asked for; null: any
 * @throws UserError with what keeps a release from being made of it
 */
export function readSource(root: string, asked: string | null): Source {
  const read = (path: string) => readFileSync(join(root, path), 'utf8');
  const found = (path: string, pattern: RegExp) => pattern.exec(read(path))?.[1] ?? null;
  const git = (...args: string[]) =>
    execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  if (!existsSync(join(root, '.git'))) {
    throw new UserError('A release is made of a commit, and this folder is no clone: make it in one.');
  }
  const { version } = JSON.parse(read('package.json'));
  const tag = `v${version}`;
  const facts: Facts = {
    asked,
    version,
    others: {
      'package-lock.json': JSON.parse(read('package-lock.json')).version,
      'CHANGELOG.md': found('CHANGELOG.md', /^## ([^\s,]+)/m),
      'clients/python/pyproject.toml': found('clients/python/pyproject.toml', /^version = "(.+)"$/m),
      'deploy/helm/worker-vllm/Chart.yaml': found('deploy/helm/worker-vllm/Chart.yaml', /^version: (\S+)$/m),
      'deploy/helm/worker-vllm/Chart.yaml (appVersion)': found(
        'deploy/helm/worker-vllm/Chart.yaml',
        /^appVersion: (\S+)$/m,
      ),
    },
    changes: git('status', '--porcelain').split('\n').filter(Boolean),
    commit: git('rev-parse', 'HEAD'),
    tagged: git('tag', '--list', tag) === '' ? null : git('rev-parse', `${tag}^{commit}`),
    changelogState: Number(found('CHANGELOG.md', /number of its state is (\d+)/)) || null,
    state: STATE_VERSION,
  };
  const refusal = refusalOf(facts);
  if (refusal !== null) throw new UserError(refusal);
  return {
    version,
    commit: facts.commit,
    committedAt: Number(git('log', '-1', '--format=%ct')),
    isDated: !/^## .*\bunreleased\b/m.test(read('CHANGELOG.md').split(/^(?=## )/m)[1] ?? ''),
  };
}
