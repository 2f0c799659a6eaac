import { expect, test } from 'vitest';
import { isPublicAddress } from '../../../src/process/ip-addresses.ts';
import { publicLookup } from '../../../src/process/public-addresses.ts';
import { resolver } from '../../support/resolver.ts';

test.each([
  ...['0.0.0.0', '10.1.2.3', '100.64.0.1', '127.0.0.1', '127.9.9.9', '169.254.169.254', '172.16.0.1'],
  ...['172.31.255.255', '192.168.0.1', '198.18.0.1', '224.0.0.1', '255.255.255.255', '192.0.0.8'],
  ...['::', '::1', '::ffff:127.0.0.1', '::ffff:10.0.0.1', '::ffff:a9fe:a9fe', '::127.0.0.1', 'fc00::1'],
  ...['fd12:3456::1', 'fe80::1', 'fe80::1%eth0', 'fec0::1', 'ff02::1', '64:ff9b::10.0.0.1', '64:ff9b:1::1'],
  ...['2002:a00:1::', '2001::1', '::ffff:0:10.0.0.1', '::ffff:0:1.1.1.1', 'localhost', ''],
])('%j is no public address', (address) => {
  expect(isPublicAddress(address)).toBe(false);
});

test.each([
  ...['1.1.1.1', '172.15.0.1', '172.32.0.1', '100.128.0.1', '192.169.0.1', '2606:4700::1111'],
  ...['::ffff:1.1.1.1', '64:ff9b::8.8.8.8', '2001:4860::8888'],
])('%j is a public address', (address) => {
  expect(isPublicAddress(address)).toBe(true);
});

test('of a name with addresses of both kinds only the public ones are connected to', async () => {
  const find = publicLookup(
    '',
    resolver({ 'both.example': ['10.0.0.1', '1.1.1.1', '::1', '2606:4700::1111'] }),
  );
  const all = await new Promise((resolve) =>
    find('both.example', { all: true }, (_, found) => resolve(found)),
  );
  expect(all).toEqual([
    { address: '1.1.1.1', family: 4 },
    { address: '2606:4700::1111', family: 6 },
  ]);
  const one = await new Promise((resolve) => find('both.example', {}, (...given) => resolve(given)));
  expect(one).toEqual([null, '1.1.1.1', 4]);
});
