import { execFileSync } from 'node:child_process';
import { driverContract } from '../support/driver-contract.ts';
import type { SeenMachine, SeenProvider } from '../support/driver-under-test.ts';
import { NO_ACCIDENTS } from '../support/fakes/accidents.ts';
import { until } from '../support/poll.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { docker, stateOf } from './containers.ts';
import { DaemonProxy } from './daemon-proxy.ts';
import { driverOf } from './driver-set-up.ts';
import { IMAGES } from './images.ts';

/** What the contract names its machines. */
const NAMES = '^/(wv-abc123-|wv-other0-|somebody-elses)';

function seen(...args: string[]): string {
  return execFileSync('docker', args, { encoding: 'utf8' }).trim();
}

function namesOfAll(): string[] {
  return seen('ps', '--all', '--filter', `name=${NAMES}`, '--format', '{{.Names}}')
    .split('\n')
    .filter(Boolean);
}

/** The daemon seen past the driver, which goes by a way that can be closed. */
class RealDaemon implements SeenProvider {
  readonly accidents = { ...NO_ACCIDENTS };
  readonly proxy: DaemonProxy;

  constructor(proxy: DaemonProxy) {
    this.proxy = proxy;
    Object.defineProperty(this.accidents, 'is_down', {
      get: () => proxy.isDown,
      set: (isDown: boolean) => {
        proxy.isDown = isDown;
      },
    });
  }

  get alive(): SeenMachine[] {
    return namesOfAll().map((name) => {
      const pairs: string[] = JSON.parse(seen('inspect', '--format', '{{json .Config.Env}}', name));
      return { name, env: Object.fromEntries(pairs.map((pair) => pair.split(/=(.*)/s, 2))) };
    });
  }

  async end({ name }: SeenMachine, _: number, detail = ''): Promise<void> {
    await docker('exec', name, 'sh', '-c', `echo '${detail}' >/tmp/end.new; mv /tmp/end.new /tmp/end`);
    await until(async () => (await stateOf(name)).Status === 'exited', 'it has ended');
  }

  async vanish({ name }: SeenMachine): Promise<void> {
    await docker('rm', '--force', name);
  }

  async close(): Promise<void> {
    const left = namesOfAll();
    if (left.length > 0) await docker('rm', '--force', ...left);
    this.proxy.close();
  }
}

const LOCAL = 'one daemon has no stock, no balance, no rate limit and no list of yesterday';
const FAKED = 'the fake has it: a real daemon cannot be made to';

driverContract(
  'docker, over a real daemon',
  async () => {
    const daemon = new RealDaemon(await new DaemonProxy().listen());
    const close = () => daemon.close();
    return {
      driver: driverOf({ host: daemon.proxy.host }),
      provider: daemon,
      clock: new VirtualClock(),
      close,
    };
  },
  {
    image: IMAGES.sleeper,
    impossible: {
      no_capacity: LOCAL,
      no_money: LOCAL,
      throttled: LOCAL,
      min_interval_ms: LOCAL,
      list_lag_ms: LOCAL,
      clock_skew_ms: LOCAL,
      start_takes_ms: 'a start is over when its answer comes',
      stuck_loading: 'the same',
      restarts_for_ever: 'containers are created without a restart policy',
      end_takes_ms: 'a removal is over when its answer comes',
      created_but_5xx: FAKED,
      created_but_error: FAKED,
      destroy_fails: FAKED,
      odd_state: FAKED,
    },
  },
);
