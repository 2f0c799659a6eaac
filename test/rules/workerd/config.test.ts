import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { MODULES } from '../../../src/workerd/bundle.ts';
import { COMPATIBILITY_DATE, COMPATIBILITY_FLAGS, workerdConfig } from '../../../src/workerd/config.ts';

const PLACE = { address: 'a:1', dataDir: '/d', modules: MODULES, trustedCertificates: [] };

describe('the configuration of workerd', () => {
  it('has the same date, flags and classes as the one for Cloudflare', () => {
    const text = readFileSync(new URL('../../../deploy/cloudflare/wrangler.jsonc', import.meta.url), 'utf8');
    const cloudflare = JSON.parse(text.replace(/^\s*\/\/.*$/gm, ''));
    expect(cloudflare.compatibility_date).toBe(COMPATIBILITY_DATE);
    expect(cloudflare.compatibility_flags).toEqual(COMPATIBILITY_FLAGS);
    const config = workerdConfig({ ...PLACE, variables: [] });
    for (const { name, class_name } of cloudflare.durable_objects.bindings) {
      expect(config).toContain(`(name = "${name}", durableObjectNamespace = "${class_name}")`);
      expect(config).toMatch(
        new RegExp(`className = "${class_name}", uniqueKey = "[a-z-]+", enableSql = true`),
      );
    }
  });

  it('names variables without holding their values', () => {
    const config = workerdConfig({ ...PLACE, variables: ['TOKENS'] });
    expect(config).toContain('(name = "TOKENS", fromEnvironment = "TOKENS")');
  });
});
