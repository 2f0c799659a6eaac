import { expect, it } from 'vitest';
import { seal, unseal } from '../../../src/features/oidc/gateway/sealed.ts';

const NOW = 1_000_000;
const sealed = await seal({ nonce: 'é', view: 'jobs' }, 'begun', NOW + 1000, 'secret');

it('a sealed value is read within its time, by the same secret, for the same purpose', async () => {
  expect(await unseal(sealed, 'begun', NOW, 'secret')).toMatchObject({ nonce: 'é', view: 'jobs' });
  expect(await unseal(sealed, 'begun', NOW + 1000, 'secret')).toBeNull();
  expect(await unseal(sealed, 'begun', NOW, 'another secret')).toBeNull();
  expect(await unseal(sealed, 'problem', NOW, 'secret')).toBeNull();
});

it('a changed value is none', async () => {
  const [, mac] = sealed.split('.');
  const other = btoa(JSON.stringify({ nonce: 'x', view: 'jobs', until: NOW + 1000 })).replace(/=+$/, '');
  for (const text of [`${other}.${mac}`, other, `${other}.`, '', '.', 'x.y.z'])
    expect(await unseal(text, 'begun', NOW, 'secret')).toBeNull();
});
