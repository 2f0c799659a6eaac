import type { Source } from './checks.ts';
import type { Image } from './images.ts';

/**
 * Says what publishes a release, as commands to paste. None of them is run here: each needs an account.
 * @param files paths in the release's folder
 * @param imageName without a tag; charts go beside the images
 */
export function publishing(
  { version, commit, isDated }: Source,
  images: readonly Image[],
  files: readonly string[],
  imageName: string,
): string {
  const under = (part: string) => files.filter((path) => path.startsWith(`${part}/`));
  const registry = imageName.slice(0, imageName.lastIndexOf('/'));
  const commands = [
    `git tag v${version} ${commit} && git push origin v${version}`,
    ...under('npm').map((path) => `npm publish release/${path}`),
    `twine upload ${under('python')
      .map((path) => `release/${path}`)
      .join(' ')}`,
    ...under('helm').map((path) => `helm push release/${path} oci://${registry}/charts`),
    ...images.map(({ name }) => {
      const latest = name.replace(/[^:]+$/, 'latest');
      return `docker push ${name} && docker tag ${name} ${latest} && docker push ${latest}`;
    }),
  ];
  const first = isDated
    ? 'These commands publish it:'
    : `CHANGELOG.md says "unreleased" of version ${version}: before you publish it, write the day there, commit, and make the release again. These commands publish it then:`;
  return `${first}\n\n${commands.map((line) => `  ${line}`).join('\n')}`;
}
