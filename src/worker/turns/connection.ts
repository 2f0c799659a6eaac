import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import type { TurnRequest, TurnWord } from './turns.ts';

/**
 * Connects to the `swap` command, which gives the turns: by a socket of this machine, with one word a line, after the
 * worker's name. `events.gone` is called when the connection has ended.
 */
export function connectTurns(
  path: string,
  name: string,
  events: { word(word: TurnWord): void; gone(): void },
): { tell(word: TurnRequest): void; close(): void } {
  const socket = connect(path);
  let isClosed = false;
  socket.on('error', () => {}).once('close', () => isClosed || events.gone());
  createInterface({ input: socket }).on('line', (line) => events.word(line as TurnWord));
  socket.write(`${name}\n`);
  return {
    tell: (word) => void socket.write(`${word}\n`),
    close: () => {
      isClosed = true;
      socket.destroy();
    },
  };
}
