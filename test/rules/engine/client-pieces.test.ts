import { afterEach, describe, expect, it } from 'vitest';
import { EngineGone, readPieces } from '../../../src/engine/client/types.ts';
import { until } from '../../support/poll.ts';
import { chat, clientOf, closeEngines, trackedServer } from '../../support/small-engine.ts';

afterEach(closeEngines);

describe('an answer of the engine, piece by piece', () => {
  it('closes the socket when whoever takes the pieces has enough, or fails', async () => {
    const engine = trackedServer((response) => void response.write('data: 1\n\n'));
    const client = await clientOf(engine.handler);
    const enough = await client.request(chat());
    await readPieces(enough.body, () => false);
    await until(() => engine.open() === 0, 'the engine sees the socket close');
    const failing = await client.request(chat());
    const reading = readPieces(failing.body, () => {
      throw new Error('no room');
    });
    await expect(reading).rejects.toThrow('no room');
    await until(() => engine.open() === 0, 'the engine sees the socket close');
  });

  it('reads no more of the engine than is taken, and all of it in the end', async () => {
    const size = 32 * 1024 * 1024;
    let written = 0;
    let isWhole = false;
    const client = await clientOf((_request, response) => {
      const write = () => {
        while (written < size) {
          written += 64 * 1024;
          if (!response.write(Buffer.alloc(64 * 1024, 'x'))) return void response.once('drain', write);
        }
        isWhole = true;
        response.end();
      };
      write();
    });
    const answer = await client.request(chat());
    const gate = Promise.withResolvers<undefined>();
    let taken = 0;
    const reading = readPieces(answer.body, (piece) => {
      taken += piece.byteLength;
      return gate.promise;
    });
    let before = -1;
    await until(() => {
      const stands = before === written;
      before = written;
      return stands;
    }, 'the engine has to wait');
    expect(isWhole).toBe(false);
    expect(taken).toBeLessThan(256 * 1024);
    gate.resolve(undefined);
    await reading;
    expect(taken).toBe(size);
  });

  it('gives what came before the engine broke off to a reader that was slow', async () => {
    const client = await clientOf((_request, response) => {
      response.write('one');
      setTimeout(() => response.write('two'), 20);
      setTimeout(() => response.destroy(), 40);
    });
    const answer = await client.request(chat());
    const gate = Promise.withResolvers<undefined>();
    const pieces: string[] = [];
    const reading = readPieces(answer.body, (piece) => {
      pieces.push(Buffer.from(piece).toString());
      return gate.promise;
    });
    setTimeout(() => gate.resolve(undefined), 200);
    await expect(reading).rejects.toBeInstanceOf(EngineGone);
    expect(pieces.join('')).toMatch(/^one(two)?$/);
  });
});
