import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type Browser, chromium } from 'playwright-core';
import { UserError } from '../../src/process/index.ts';
import { SetupSteps } from '../setup-steps.ts';

/** Debian's packages: a Chromium without a screen, what it cannot start without, and fonts for the tests. */
const PACKAGES = ['chromium-headless-shell', 'chromium-common', 'fonts-inter', 'fonts-dejavu-core'];
const PROGRAM = '/usr/lib/chromium/chromium-headless-shell';
/** The same fonts whatever else the machine has, or screenshots differ. */
const FONTS = join(import.meta.dirname, 'fonts.conf');

const setup = new SetupSteps('browser');

/** A browser for the tests: the one that `CHROMIUM` names, with the machine's own fonts, else Debian's. */
export async function launchBrowser(): Promise<Browser> {
  const { CHROMIUM } = process.env;
  return await chromium.launch({
    executablePath: CHROMIUM || PROGRAM,
    // Containers have no sandbox to offer, and little shared memory.
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
    env: { ...process.env, ...(CHROMIUM ? {} : { FONTCONFIG_FILE: FONTS }) } as Record<string, string>,
  });
}

/**
 * Sees to it that there is a browser that renders pages. Where none does, Debian's packages are installed on this machine
 * (100 MB to download), and once more over what is there already: a part of them may be missing. Safe to call from several
 * processes at once: one installs, the others wait.
 * @param stateDir for the log of the installation
 * @throws UserError naming what failed, and what to do
 */
export async function ensureBrowser(stateDir = '.worker-vllm'): Promise<void> {
  const { CHROMIUM } = process.env;
  if (CHROMIUM) {
    const fault = await whyItDoesNotRender();
    if (fault) throw new UserError(`CHROMIUM=${CHROMIUM} shows no page: ${fault}`);
    return;
  }
  if (existsSync(PROGRAM) && !(await whyItDoesNotRender())) return;
  const home = resolve(stateDir, 'browser');
  mkdirSync(home, { recursive: true });
  const unlock = await setup.lock(join(home, 'lock.sqlite'));
  try {
    if (!existsSync(PROGRAM) || (await whyItDoesNotRender())) await install(home);
  } finally {
    unlock();
  }
  const fault = await whyItDoesNotRender();
  if (fault) throw new UserError(`The browser of Debian's packages shows no page: ${fault}`);
  setup.say('the browser is ready');
}

/** Null: it does. A browser that can start may still miss what it draws with. */
async function whyItDoesNotRender(): Promise<string | null> {
  try {
    const browser = await launchBrowser();
    try {
      const page = await browser.newPage();
      await page.setContent('<h1>Hello</h1>');
      await page.screenshot();
      return (await page.textContent('h1')) === 'Hello' ? null : 'the page is empty';
    } finally {
      await browser.close();
    }
  } catch (error) {
    return faultIn((error as Error).message);
  }
}

/** Playwright's message has the whole command line, twice: its first line and what the browser itself said. */
function faultIn(message: string): string {
  const said = [...message.matchAll(/\[pid=\d+\]\[err\] (.+)/g)].map(([, line]) => line);
  return [message.split('\n', 1)[0], ...new Set(said)].slice(0, 6).join('\n');
}

async function install(home: string): Promise<void> {
  const log = join(home, 'install.log');
  rmSync(log, { force: true });
  const hint =
    `\nThe browser for the tests comes from Debian's packages (${PACKAGES.join(', ')}), which only root can install. ` +
    'Elsewhere set CHROMIUM to the program of a Chromium or Chrome.';
  const rights = process.getuid?.() === 0 ? [] : ['sudo', '-n'];
  const run = async (what: string, ...words: string[]) => {
    const [command = '', ...args] = [...rights, ...words];
    await setup.step(what, log, command, args, { hintFor: () => hint });
  };
  // Lists and downloads of its own: apt-get waits for another one, of another set-up perhaps, only while that installs.
  const own = join(home, 'apt');
  for (const folder of ['lists/partial', 'cache/archives/partial']) {
    mkdirSync(join(own, folder), { recursive: true });
  }
  const options = [
    ...['-o', `Dir::State::lists=${join(own, 'lists')}`, '-o', `Dir::Cache=${join(own, 'cache')}`],
    ...['-o', 'APT::Sandbox::User=root', '-o', 'DPkg::Lock::Timeout=600'],
  ];
  const apt = (what: string, ...args: string[]) =>
    run(what, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get', ...options, ...args);
  setup.say(`installing Debian's ${PACKAGES[0]}: once, about 100 MB to download (log: ${log})`);
  await apt('reading the lists of packages', 'update');
  const install = ['install', '--yes', '--no-install-recommends'];
  await apt('installing', ...install, ...PACKAGES);
  if (await whyItDoesNotRender()) {
    await apt('installing anew what was there', ...install, '--reinstall', ...PACKAGES);
  }
  await run('removing what was downloaded', 'rm', '-rf', own);
}

if (import.meta.main) {
  try {
    await ensureBrowser(process.argv[2]);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    console.error(error.message);
    process.exitCode = error.exitCode;
  }
}
