import { execFileSync, spawnSync } from 'node:child_process';

/** The machines of a run. Each is a network namespace, on one bridge; `clients` has the bridge and this program. */
const MACHINES = ['clients', 'one', 'two', 'database', 'standby', 'edge'] as const;
export type Machine = (typeof MACHINES)[number];

/** The address at which the journal's server is; it moves to its standby in a failover. */
export const JOURNAL_ADDRESS = '10.143.9.100';
const BRIDGE = 'wvjbridge';

/** Returns the network namespace of a machine. */
function namespaceOf(machine: Machine): string {
  return `wvj${MACHINES.indexOf(machine)}`;
}

export function addressOf(machine: Machine): string {
  return `10.143.9.${10 + MACHINES.indexOf(machine)}`;
}

/** Returns the words before a command that make it run on a machine. */
export function on(machine: Machine): string[] {
  return ['ip', 'netns', 'exec', namespaceOf(machine)];
}

/** Makes all machines. What an earlier run has left is removed first. */
export function makeNetwork(): void {
  removeNetwork();
  for (const machine of MACHINES) {
    ip('netns', 'add', namespaceOf(machine));
    ip('-n', namespaceOf(machine), 'link', 'set', 'lo', 'up');
  }
  const hub = namespaceOf('clients');
  ip('-n', hub, 'link', 'add', BRIDGE, 'type', 'bridge');
  ip('-n', hub, 'addr', 'add', `${addressOf('clients')}/24`, 'dev', BRIDGE);
  ip('-n', hub, 'link', 'set', BRIDGE, 'up');
  for (const machine of MACHINES.slice(1)) {
    const namespace = namespaceOf(machine);
    ip('-n', hub, 'link', 'add', namespace, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', namespace);
    ip('-n', hub, 'link', 'set', namespace, 'master', BRIDGE, 'up');
    ip('-n', namespace, 'addr', 'add', `${addressOf(machine)}/24`, 'dev', 'eth0');
    ip('-n', namespace, 'link', 'set', 'eth0', 'up');
  }
}

/** Ends every process on the machines, and removes them. */
export function removeNetwork(): void {
  const existing = execFileSync('ip', ['netns', 'list'], { encoding: 'utf8' });
  const names = new Set(existing.split('\n').map((line) => line.split(' ')[0]));
  for (const machine of MACHINES) {
    const namespace = namespaceOf(machine);
    if (!names.has(namespace)) continue;
    for (const pid of execFileSync('ip', ['netns', 'pids', namespace], { encoding: 'utf8' }).split('\n')) {
      if (pid !== '' && Number(pid) !== process.pid) spawnSync('kill', ['-9', pid]);
    }
    ip('netns', 'del', namespace);
  }
}

/** Drops what one machine sends to another one. Connections stay open, as with a cable that is cut. */
export function cut(from: Machine, to: Machine): void {
  for (const address of addressesOf(from)) filter(to, '-A', address);
}

/** Lets everything pass again. */
export function heal(): void {
  for (const machine of MACHINES) execFileSync('ip', [...on(machine).slice(1), 'iptables', '-F', 'INPUT']);
}

/** Gives a machine the address of the journal's server, and takes it from the other one. */
export function moveJournalAddress(to: 'database' | 'standby'): void {
  const from = to === 'database' ? 'standby' : 'database';
  spawnSync('ip', ['-n', namespaceOf(from), 'addr', 'del', `${JOURNAL_ADDRESS}/24`, 'dev', 'eth0']);
  spawnSync('ip', ['-n', namespaceOf(to), 'addr', 'add', `${JOURNAL_ADDRESS}/24`, 'dev', 'eth0']);
  for (const machine of MACHINES) ip('-n', namespaceOf(machine), 'neigh', 'flush', 'all');
}

function filter(at: Machine, change: '-A', from: string): void {
  execFileSync('ip', [...on(at).slice(1), 'iptables', change, 'INPUT', '-s', from, '-j', 'DROP']);
}

function addressesOf(machine: Machine): string[] {
  const isDatabase = machine === 'database' || machine === 'standby';
  return isDatabase ? [addressOf(machine), JOURNAL_ADDRESS] : [addressOf(machine)];
}

function ip(...args: string[]): void {
  execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'inherit'] });
}
