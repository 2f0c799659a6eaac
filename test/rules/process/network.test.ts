import { expect, test } from 'vitest';
import { dialableHost, isLoopback } from '../../../src/process/network.ts';

test.each(['localhost', 'LOCALHOST', 'queue.localhost', '127.0.0.1', '127.1.2.3', '::1', '[::1]'])(
  '%s is this machine',
  (host) => expect(isLoopback(host)).toBe(true),
);

test.each(['0.0.0.0', '::', 'localhost.example.com', '127.0.0.1.example.com', '128.0.0.1', 'evillocalhost'])(
  '%s is not only this machine',
  (host) => expect(isLoopback(host)).toBe(false),
);

test.each([
  ['0.0.0.0', '127.0.0.1'],
  ['*', '127.0.0.1'],
  ['::', '[::1]'],
  ['[::]', '[::1]'],
  ['::1', '[::1]'],
  ['[fe80::1]', '[fe80::1]'],
  ['10.0.0.7', '10.0.0.7'],
  ['queue.example.com', 'queue.example.com'],
])('what listens on %s is dialled at %s', (host, address) => expect(dialableHost(host)).toBe(address));
