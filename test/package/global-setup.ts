import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { installPublished } from '../support/published.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** An empty project with the published package and its dependencies, and nothing else. */
    app: string;
    /** Paths of what is published. */
    published: string[];
  }
}

export default function setup({ provide }: TestProject): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'published-'));
  provide('published', installPublished(folder));
  provide('app', folder);
  return () => rmSync(folder, { recursive: true, force: true });
}
