import type { Clock } from '../clock.ts';
import type { Ports } from '../ports.ts';
import type { AskMetadata, MetadataAnswer, Question } from './metadata.ts';
import { awsNotice, azureNotice, googleNotice, type Notice } from './notice.ts';

/** A place where notices appear. */
export interface NoticeSource {
  name: string;
  /** The pause between two looks, ms. */
  everyMs: number;
  /** Returns the notice, or null while there is none. @throws Error if the place cannot be read now */
  look(signal: AbortSignal): Promise<Notice | null>;
  /** Tells the provider that the machine may go. Called once the worker has ended after a notice of this place. */
  drained?(): Promise<void>;
}

export interface CloudPorts {
  ask: AskMetadata;
  clock: Clock;
  log: Ports['log'];
}

/**
 * Finds out which cloud's machine this is; null: none of them. Each is asked by a question that the others refuse. Rejects
 * where nobody answers.
 */
export const CLOUDS: readonly ((ports: CloudPorts, signal: AbortSignal) => Promise<NoticeSource | null>)[] = [
  aws,
  google,
  azure,
];

/** A machine that is no cloud's has nobody to answer: the worker does not wait, so this need not be short. */
const FIND_WITHIN_MS = 2000;
const LOOK_WITHIN_MS = 4000;

/** AWS asks for a look every 5 s, Azure for one every second. */
const AWS_EVERY_MS = 5000;
const AZURE_EVERY_MS = 1000;
/** The pause after an answer of Google Cloud, which itself waits for a change, ms. */
const GOOGLE_EVERY_MS = 500;
/** Google Cloud answers after so many seconds without a change. */
const GOOGLE_WAITS_SECONDS = 60;
/** Azure begins to watch a machine at the first question, which may take two minutes. */
const AZURE_WITHIN_MS = 150_000;

/** A token of AWS is good for this long, s. */
const TOKEN_SECONDS = 21_600;

async function aws({ ask, log }: CloudPorts, found: AbortSignal): Promise<NoticeSource | null> {
  const requestToken = async (withinMs: number, signal: AbortSignal) => {
    const headers = { 'X-aws-ec2-metadata-token-ttl-seconds': String(TOKEN_SECONDS) };
    return await ask({ path: '/latest/api/token', method: 'PUT', headers, withinMs }, signal);
  };
  let { status, text: token } = await requestToken(FIND_WITHIN_MS, found);
  if (status !== 200 || !/^[\w=+/-]+$/.test(token)) return null;

  const read = async (path: string, signal: AbortSignal): Promise<MetadataAnswer> => {
    const question = (): Question => ({
      path: `/latest/meta-data/${path}`,
      headers: { 'X-aws-ec2-metadata-token': token },
      withinMs: LOOK_WITHIN_MS,
    });
    const answer = await ask(question(), signal);
    if (answer.status !== 401) return answer;
    ({ status, text: token } = await requestToken(LOOK_WITHIN_MS, signal));
    return await ask(question(), signal);
  };
  let isRecommended = false;
  return {
    name: 'AWS',
    everyMs: AWS_EVERY_MS,
    look: async (signal) => {
      const action = await read('spot/instance-action', signal);
      if (action.status === 200) return awsNotice(action.text);
      if (!isRecommended && (await read('events/recommendations/rebalance', signal)).status === 200) {
        isRecommended = true;
        log.info({}, 'AWS may take this machine away sooner than others (its recommendation to rebalance)');
      }
      return null;
    },
  };
}

async function google({ ask, clock }: CloudPorts, found: AbortSignal): Promise<NoticeSource | null> {
  const path = '/computeMetadata/v1/instance/preempted';
  const headers = { 'Metadata-Flavor': 'Google' };
  const first = await ask({ path, headers, withinMs: FIND_WITHIN_MS }, found);
  if (first.status !== 200 || first.headers['metadata-flavor'] !== 'Google') return null;
  let known: MetadataAnswer | null = first;
  let etag = first.headers.etag;
  return {
    name: 'Google Cloud',
    everyMs: GOOGLE_EVERY_MS,
    look: async (signal) => {
      // The first answer may have it already: a change before that would be waited for in vain.
      const answer = known ?? (await waited(signal));
      known = null;
      etag = answer.headers.etag;
      return answer.status === 200 ? googleNotice(answer.text, clock.now()) : null;
    },
  };

  async function waited(signal: AbortSignal): Promise<MetadataAnswer> {
    const query = new URLSearchParams({
      wait_for_change: 'true',
      timeout_sec: String(GOOGLE_WAITS_SECONDS),
      ...(typeof etag === 'string' && { last_etag: etag }),
    });
    const withinMs = GOOGLE_WAITS_SECONDS * 1000 + LOOK_WITHIN_MS;
    return await ask({ path: `${path}?${query}`, headers, withinMs }, signal);
  }
}

async function azure({ ask }: CloudPorts, found: AbortSignal): Promise<NoticeSource | null> {
  const headers = { Metadata: 'true' };
  const named = '/metadata/instance/compute/name?api-version=2021-02-01&format=text';
  const { status, text } = await ask({ path: named, headers, withinMs: FIND_WITHIN_MS }, found);
  const machine = text.trim();
  if (status !== 200 || !/^[\w.-]+$/.test(machine)) return null;
  const path = '/metadata/scheduledevents?api-version=2020-07-01';
  let eventId: string | null = null;
  return {
    name: 'Azure',
    everyMs: AZURE_EVERY_MS,
    look: async (signal) => {
      const answer = await ask({ path, headers, withinMs: AZURE_WITHIN_MS }, signal);
      const notice = answer.status === 200 ? azureNotice(answer.text, machine) : null;
      eventId = notice?.eventId ?? null;
      return notice;
    },
    drained: async () => {
      const body = JSON.stringify({ StartRequests: [{ EventId: eventId }] });
      await ask({ path, method: 'POST', headers, body, withinMs: LOOK_WITHIN_MS });
    },
  };
}
