import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { UserError } from '../../src/process/index.ts';
import { SetupSteps } from '../setup-steps.ts';

/** A Chromium without a screen, and fonts that look the same on every machine. */
export interface BrowserInstall {
  /** The program. */
  executablePath: string;
  /** Variables that it needs besides the usual environment. */
  env: Record<string, string>;
}

/** Debian's packages; what they need beyond what the machine has is fetched with them. */
const BROWSER = 'chromium-headless-shell';
const FONTS = ['fonts-inter', 'fonts-dejavu-core'];

/** Raised whenever what is written below changes: an older installation is then made anew. */
const RECIPE = 1;

const setup = new SetupSteps('browser');

/**
 * Makes the installation in `<stateDir>/browser/` if it is not there yet (half a minute, 300 MB), and says so on
 * stderr: packages are downloaded and unpacked, nothing is installed on the machine. Where `CHROMIUM` names a
 * program, that one is used with the machine's own fonts. Safe to call from several processes at once: one installs,
 * the others wait.
 * @throws UserError naming the step that failed, with the last lines of its output
 */
export async function ensureBrowser(stateDir = '.worker-vllm'): Promise<BrowserInstall> {
  if (process.env.CHROMIUM) return { executablePath: process.env.CHROMIUM, env: {} };
  const home = resolve(stateDir, 'browser');
  const root = join(home, 'root');
  const install: BrowserInstall = {
    executablePath: join(root, 'usr/lib/chromium', BROWSER),
    env: { LD_LIBRARY_PATH: libraryPath(root), FONTCONFIG_FILE: join(home, 'fonts.conf') },
  };
  if (isComplete(home)) return install;
  mkdirSync(home, { recursive: true });
  const unlock = await setup.lock(join(home, 'lock.sqlite'));
  try {
    if (!isComplete(home)) await make(home, root);
  } finally {
    unlock();
  }
  return { ...install, env: { ...install.env, LD_LIBRARY_PATH: libraryPath(root) } };
}

function isComplete(home: string): boolean {
  const marker = join(home, 'complete');
  return existsSync(marker) && readFileSync(marker, 'utf8') === `recipe ${RECIPE}\n`;
}

/** Where Debian keeps libraries: a folder for the architecture, and folders in it. */
function libraryPath(root: string): string {
  const lib = join(root, 'usr/lib');
  if (!existsSync(lib)) return '';
  const ofArchitecture = readdirSync(lib).filter((name) => name.endsWith('-linux-gnu'));
  return ofArchitecture
    .flatMap((name) => [join(lib, name), join(lib, name, 'pulseaudio')])
    .filter((folder) => existsSync(folder))
    .join(':');
}

async function make(home: string, root: string): Promise<void> {
  const log = join(home, 'install.log');
  const packages = join(home, 'packages');
  for (const old of [root, packages, log]) rmSync(old, { recursive: true, force: true });
  mkdirSync(root);
  // apt's own folders, so that no rights are needed and old lists of packages do no harm.
  for (const folder of ['lists/partial', 'cache/archives/partial']) {
    mkdirSync(join(packages, folder), { recursive: true });
  }
  const apt = [
    ...['-o', `Dir::State::lists=${join(packages, 'lists')}`, '-o', `Dir::Cache=${join(packages, 'cache')}`],
    ...['-o', 'APT::Sandbox::User=root', '-o', 'Debug::NoLocking=true'],
  ];
  setup.say(`unpacking Debian's ${BROWSER} under ${home}: once, about 90 MB to download (log: ${log})`);
  if (spawnSync('apt-get', ['--version'], { stdio: 'ignore' }).status !== 0)
    throw notDebian('there is no apt-get');
  await setup.step('reading the lists of packages', log, 'apt-get', [...apt, 'update']);
  const names = [...missingPackages(apt), ...FONTS];
  // It downloads to where it stands.
  const download = ['-c', 'cd "$0" && exec apt-get "$@"', packages, ...apt, 'download', ...names];
  await setup.step(`downloading ${names.length} packages`, log, 'sh', download);
  const unpack = [
    '-c',
    'for file in "$0"/*.deb; do dpkg-deb -x "$file" "$1" || exit 1; done',
    packages,
    root,
  ];
  await setup.step('unpacking them', log, 'sh', unpack);
  rmSync(packages, { recursive: true });
  writeFileSync(join(home, 'fonts.conf'), fontSettings(home, root));
  writeFileSync(join(home, 'complete'), `recipe ${RECIPE}\n`);
  setup.say('the browser is ready');
}

/** The browser and the libraries that are not on this machine. */
function missingPackages(apt: string[]): string[] {
  const args = [...apt, '--simulate', '--no-install-recommends', '--reinstall', 'install', BROWSER];
  const asked = spawnSync('apt-get', args, { encoding: 'utf8' });
  const names = [...asked.stdout.matchAll(/^Inst (\S+)/gm)].map((match) => match[1]!);
  if (!names.includes(BROWSER)) throw notDebian(asked.stderr.trim() || `apt-get knows no ${BROWSER}`);
  return names;
}

function notDebian(why: string): UserError {
  return new UserError(
    `The browser for the tests comes from Debian's packages, and that failed: ${why}. Set CHROMIUM to the program of a Chromium or Chrome that is installed.`,
  );
}

/** The same fonts whatever the machine has, or screenshots differ. */
function fontSettings(home: string, root: string): string {
  const prefer = (family: string, font: string) =>
    `<alias binding="same"><family>${family}</family><prefer><family>${font}</family></prefer></alias>`;
  return `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>${join(root, 'usr/share/fonts')}</dir>
  <cachedir>${join(home, 'font-cache')}</cachedir>
  ${prefer('sans-serif', 'Inter')}
  ${prefer('system-ui', 'Inter')}
  ${prefer('monospace', 'DejaVu Sans Mono')}
</fontconfig>
`;
}

if (import.meta.main) {
  try {
    console.log(JSON.stringify(await ensureBrowser(process.argv[2]), null, 2));
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    console.error(error.message);
    process.exitCode = error.exitCode;
  }
}
