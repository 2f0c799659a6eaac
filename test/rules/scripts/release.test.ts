import { describe, expect, it } from 'vitest';
import { type Facts, refusalOf } from '../../../scripts/release/checks.ts';
import { releaseNotes } from '../../../scripts/release/notes.ts';
import { publishing } from '../../../scripts/release/publishing.ts';

/** The rules by which `npm run release` refuses a commit, and writes of one. */

const COMMIT = 'c'.repeat(40);
const fine: Facts = {
  asked: null,
  version: '1.2.0',
  others: { 'CHANGELOG.md': '1.2.0', 'clients/python/pyproject.toml': '1.2.0' },
  changes: [],
  commit: COMMIT,
  tagged: null,
  changelogState: 29,
  state: 29,
};

describe('a release', () => {
  it('is made where all files say the same version, again too', () => {
    expect(refusalOf(fine)).toBeNull();
    expect(refusalOf({ ...fine, asked: '1.2.0', tagged: COMMIT })).toBeNull();
  });

  it.each<[string, Partial<Facts>, string]>([
    ['a changed file', { changes: [' M README.md', '?? new.ts'] }, '(M README.md and 1 more)'],
    ['another version than asked for', { asked: '1.3.0' }, 'package.json says version 1.2.0, not 1.3.0'],
    [
      'a file of another version',
      { others: { 'CHANGELOG.md': '1.1.0' } },
      'CHANGELOG.md says version 1.1.0 where',
    ],
    [
      'a file without a version',
      { others: { 'CHANGELOG.md': null } },
      'CHANGELOG.md says version nothing where',
    ],
    ['another number of the state', { changelogState: 28 }, 'the state is 28 where STATE_VERSION is 29'],
    ['a tag elsewhere', { tagged: 'd'.repeat(40) }, 'the tag v1.2.0 of another commit (dddddddddddd)'],
  ])('is refused with %s', (_, facts, words) => {
    expect(refusalOf({ ...fine, ...facts })).toContain(words);
  });
});

describe('release notes', () => {
  const documents = {
    changelog: '# Changelog\n\n## 1.2.0, 2027-01-01\n\n- New: [jobs](docs/jobs.md).\n\n## 1.1.0\n\n- Old.\n',
    upgrading: [
      '## With a number that the new version reads\n\n[Back up](deploying.md#backup), or go [the other way](#with-another-number).\n',
      '## With another number\n\nSee [the changes](../CHANGELOG.md) and [SemVer](https://semver.org).\n',
      '## With a journal\n\nFollowers first.\n',
    ].join('\n'),
  };
  const notes = (oldest: number) =>
    releaseNotes({ version: '1.2.0', ...documents, state: { number: 29, oldest }, images: [] });

  it('are the section of the version alone, and the ways of upgrading with links from the root', () => {
    expect(notes(25)).toContain('# worker-vllm 1.2.0\n\n- New: [jobs](docs/jobs.md).\n\n## Upgrading');
    expect(notes(25)).not.toContain('Old.');
    expect(notes(25)).toContain(
      '(docs/deploying.md#backup), or go [the other way](docs/upgrading.md#with-another-number)',
    );
    expect(notes(25)).toContain('(CHANGELOG.md) and [SemVer](https://semver.org)');
  });

  it('say which numbers of a state are read', () => {
    expect(notes(25)).toContain('state is 29, and it also reads 25 to 28');
    expect(notes(29)).toContain('state is 29, and it reads no other');
  });
});

describe('what publishes a release', () => {
  const files = ['helm/c-1.2.0.tgz', 'npm/p-1.2.0.tgz', 'python/p.tar.gz', 'python/p.whl'];
  const source = { version: '1.2.0', commit: COMMIT, committedAt: 0, isDated: true };

  it('is a command for each place, with the files that were made', () => {
    const image = { name: 'registry.example.com/me/it-queue:1.2.0', id: 'sha256:a' };
    const latest = 'registry.example.com/me/it-queue:latest';
    const text = publishing(source, [image], files, 'registry.example.com/me/it');
    expect(text.split('\n').slice(2)).toEqual([
      `  git tag v1.2.0 ${COMMIT} && git push origin v1.2.0`,
      '  npm publish release/npm/p-1.2.0.tgz',
      '  twine upload release/python/p.tar.gz release/python/p.whl',
      '  helm push release/helm/c-1.2.0.tgz oci://registry.example.com/me/charts',
      `  docker push ${image.name} && docker tag ${image.name} ${latest} && docker push ${latest}`,
    ]);
  });

  it('asks for the day of the version first', () => {
    expect(publishing({ ...source, isDated: false }, [], files, 'a/b')).toContain('write the day there');
  });
});
