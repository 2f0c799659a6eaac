import { Socket } from 'node:net';
import pg from 'pg';
import { UserError } from '../../../process/index.ts';
import { CALL_MS } from './journal.ts';

export type Row = Record<string, unknown>;

interface Connected {
  client: pg.Client;
  socket: Socket;
  ready: Promise<unknown>;
  /** Why it was given up; an answer that comes after that does not count. */
  givenUp: Error | null;
}

/** The classes of SQLSTATE whose errors say nothing against the statement: the server is stopping, starting or full. */
const OF_THE_MOMENT = /^(?:08|53|57P0)/;
/** The server has become a standby, which takes no writes: its address will lead to the new primary. */
const READ_ONLY = '25006';

/** A connection to PostgreSQL that is made when it is needed, and anew after it was lost. */
export class PostgresConnection {
  readonly #config: pg.ClientConfig;
  readonly #limitMs: number | null;
  #connected: Connected | null = null;

  /**
   * @param more.limitMs the time in which each query settles, connecting included; null: it may take as long as it takes
   * @throws UserError if the address cannot be read
   */
  constructor(address: string, { limitMs = CALL_MS as number | null } = {}) {
    this.#config = configOf(address);
    this.#limitMs = limitMs;
  }

  /** Runs one statement. After an error that is not the statement's, the next one gets a new connection. */
  async query(text: string, values: unknown[] = []): Promise<Row[]> {
    this.#connected ??= this.#connect();
    const connected = this.#connected;
    const late = () => this.#giveUp(connected, new Error(`no answer in ${this.#limitMs} ms`));
    const timer = this.#limitMs === null ? null : setTimeout(late, this.#limitMs);
    try {
      await connected.ready;
      const { rows } = await connected.client.query({ text, values });
      if (connected.givenUp) throw connected.givenUp;
      return rows;
    } catch (error) {
      if (!isUnreachable(error)) throw error;
      this.#giveUp(connected, error as Error);
      // Once the connection is given up, the client's own errors no longer say why.
      throw connected.givenUp;
    } finally {
      if (timer) clearTimeout(timer);
    }
  }

  /** Ends the connection; what its transaction has done is undone. */
  async close(): Promise<void> {
    const connected = this.#connected;
    this.#connected = null;
    if (!connected) return;
    const timer = setTimeout(() => connected.socket.destroy(), CALL_MS);
    await connected.ready.then(() => connected.client.end()).catch(() => connected.socket.destroy());
    clearTimeout(timer);
  }

  #connect(): Connected {
    const socket = new Socket();
    const client = new pg.Client({ ...this.#config, stream: () => socket });
    const ready = client.connect();
    const connected: Connected = { client, socket, ready, givenUp: null };
    // Between two queries nobody waits for the connection: the next query makes another one.
    client.on('error', (error) => this.#giveUp(connected, error));
    // A server whose wait for its synchronous standby is cancelled says so in a warning alone, and the statement succeeds.
    const warned = ({ code = '', message = '' }) => {
      if (code.startsWith('01')) this.#giveUp(connected, new Error(message));
    };
    // The server also warns as it connects, such as of collations of an older system; that concerns no statement.
    ready.then(
      () => client.on('notice', warned),
      () => {},
    );
    return connected;
  }

  #giveUp(connected: Connected, reason: Error): void {
    if (this.#connected === connected) this.#connected = null;
    connected.givenUp ??= reason;
    connected.socket.destroy(reason);
  }
}

/** Returns whether an error says that the server cannot be reached or cannot answer now, rather than that it refuses. */
export function isUnreachable(error: unknown): boolean {
  const { code } = error as { code?: string };
  if (error instanceof pg.DatabaseError) return OF_THE_MOMENT.test(code ?? '') || code === READ_ONLY;
  return !isOfCertificate(code);
}

/** Returns whether a code of Node's TLS says that the server's certificate is not trusted. */
function isOfCertificate(code = ''): boolean {
  return /CERT|SIGNATURE|ISSUER/.test(code);
}

function configOf(address: string): pg.ClientConfig {
  const config = {
    connectionString: address,
    application_name: 'worker-vllm',
    // A server that is gone without a word is noticed between two queries.
    keepAlive: true,
    // A query does not wait for the answer of the one before it.
    pipeline: true,
  };
  try {
    new pg.Client(config);
    return config;
  } catch (error) {
    // The client leaves the address, which may hold a password, out of its message.
    throw new UserError(
      `The address of the journal (QUEUE_JOURNAL or --journal) cannot be read: ${(error as Error).message}. ` +
        'Its form is postgres://USER:PASSWORD@HOST:PORT/DATABASE.',
    );
  }
}
