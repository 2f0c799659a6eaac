/** The parts from which release notes are made. */
export interface NotesOf {
  version: string;
  /** CHANGELOG.md. */
  changelog: string;
  /** docs/upgrading.md. */
  upgrading: string;
  /** The number of the state, and the oldest that is read. */
  state: { number: number; oldest: number };
  /** The images with the digests that `docker` gave them; empty: none were built. */
  images: readonly { name: string; id: string }[];
}

/** The sections of docs/upgrading.md that somebody follows who has the version before. */
const WAYS = ['With a number that the new version reads', 'With another number', 'With a journal'];

/**
 * Returns the notes of a release: the section of the changelog, and the ways of docs/upgrading.md. Links lead from the
 * root of the repository, as those of CHANGELOG.md do.
 * @throws Error when a section is not there
 */
export function releaseNotes({ version, changelog, upgrading, state, images }: NotesOf): string {
  const ways = WAYS.map((heading) => `### ${heading}\n\n${fromRoot(section(upgrading, heading))}`);
  const reads =
    state.oldest === state.number
      ? `it reads no other`
      : `it also reads ${state.oldest} to ${state.number - 1}, whose tables it brings up to date`;
  return [
    `# worker-vllm ${version}`,
    section(changelog, version),
    '## Upgrading',
    `The number of this version's state is ${state.number}, and ${reads}. [What is kept](docs/upgrading.md#what-is-kept) says what that means; \`worker-vllm state check\` says the number of a folder.`,
    ...ways,
    ...(images.length > 0
      ? ['## Images', images.map(({ name, id }) => `- \`${name}\`: ${id}`).join('\n')]
      : []),
  ]
    .join('\n\n')
    .concat('\n');
}

/** The text below the heading of level 2 that begins with some words. */
function section(document: string, heading: string): string {
  const sections = document.split(/^## /m).slice(1);
  const found = sections.find((text) => /^[^\n,]*/.exec(text)![0] === heading);
  if (found === undefined) throw new Error(`there is no section "${heading}"`);
  return found.slice(found.indexOf('\n')).trim();
}

/** Links of a page of docs/, as they are seen from the folder above it. */
function fromRoot(text: string): string {
  return text
    .replaceAll(/\]\(#/g, '](docs/upgrading.md#')
    .replaceAll(/\]\((?![a-z]+:|docs\/)([^)]+)\)/g, (_, path) =>
      path.startsWith('../') ? `](${path.slice(3)})` : `](docs/${path})`,
    );
}
