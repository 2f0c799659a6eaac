import { fieldsOf } from '../../protocol/index.ts';
import {
  EngineAnswerInvalid,
  type EngineClient,
  EngineGone,
  EngineUnreachable,
  readPieces,
} from './types.ts';

/** The reason why an engine is not healthy, as far as it can be seen from outside. */
export interface Diagnosis {
  /** `locked`: the engine wants another key. `no_engine`: the server that answers is no engine. */
  kind: 'unreachable' | 'no_engine' | 'locked' | 'unhealthy';
  /** The problem for people, to stand behind the address. */
  problem: string;
}

/** The meaning of system and TLS errors; any other error is reported as it is. */
const CONNECTION_PROBLEMS: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EHOSTUNREACH: 'no route to this host',
  ENETUNREACH: 'no route to this network',
  ENOTFOUND: 'there is no host of this name',
  EAI_AGAIN: 'the name of the host cannot be looked up',
  ETIMEDOUT: 'no answer to the connection',
  UND_ERR_CONNECT_TIMEOUT: 'no answer to the connection',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS: the address begins with http://',
};

/**
 * Asks what a health probe asks, for the reason instead of a yes or no. Never throws.
 * @returns null: the engine is healthy
 */
export async function diagnose(
  engine: Pick<EngineClient, 'request'>,
  healthPaths: readonly string[],
  limitMs: number,
): Promise<Diagnosis | null> {
  const missing: string[] = [];
  try {
    for (const path of healthPaths) {
      const signal = AbortSignal.timeout(limitMs);
      const { status, body } = await engine.request({ method: 'GET', path, signal });
      await readPieces(body, () => false);
      const asked = `GET ${path}`;
      if (status === 200) return null;
      if (status === 404) missing.push(asked);
      else if (status === 401 || status === 403)
        return { kind: 'locked', problem: `it wants another key: ${asked} is ${status}` };
      else if (status >= 500)
        return { kind: 'unhealthy', problem: `it answers, but is not healthy: ${asked} is ${status}` };
      else return { kind: 'no_engine', problem: `it answers, but is no engine: ${asked} is ${status}` };
    }
  } catch (error) {
    return diagnosisOf(error, limitMs);
  }
  return { kind: 'no_engine', problem: `it answers, but is no engine: ${missing.join(' and ')} are 404` };
}

function diagnosisOf(error: unknown, limitMs: number): Diagnosis {
  if (error instanceof EngineUnreachable) {
    const { code } = fieldsOf(error.cause);
    return { kind: 'unreachable', problem: CONNECTION_PROBLEMS[String(code)] ?? error.message };
  }
  if (error instanceof EngineAnswerInvalid)
    return { kind: 'no_engine', problem: 'it answers, but not in HTTP' };
  if (error instanceof EngineGone)
    return { kind: 'no_engine', problem: 'it closes connections without an answer' };
  return {
    kind: 'unhealthy',
    problem: `it takes connections, but does not answer within ${limitMs / 1000} s`,
  };
}
