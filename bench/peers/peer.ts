import { join } from 'node:path';
import { PEERS } from '../durable/peer-server.ts';

/** Something else that a user could put in front of an engine. */
export interface Peer {
  name: string;
  /** The program in `bench/.peers`, or on the PATH: without it the peer is left out. */
  program: string;
  /** Returns the commands that start it, as its documents say. */
  commands(place: Place): Command[];
}

export interface Place {
  engineUrl: string;
  /** The port of the loopback interface at which the peer is to listen. */
  port: number;
  /** A free one, for metrics that nobody reads. */
  metricsPort: number;
  /** An empty one, for its configuration; its working folder too. */
  folder: string;
  /** How fast the engine is, ms, for a peer that brings an engine of its own. */
  interTokenMs: number;
}

interface Command {
  program: string;
  args: string[];
  env?: NodeJS.ProcessEnv;
}

/** A program of one of the virtual environments that `node bench/setup.ts` makes. */
export function installed(environment: string, program: string): string {
  return join(PEERS, environment, 'bin', program);
}
