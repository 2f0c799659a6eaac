import { chmodSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** One GPU as `--query-gpu` prints it, for gpu-check.ts; idle and healthy but for what is given. */
export function gpuLine(gpu: Partial<Record<keyof typeof HEALTHY, string>> = {}): string {
  const shown = { ...HEALTHY, ...gpu };
  const { index, uuid, total, used, busy, ecc, limit, defaultLimit, name } = shown;
  return [index, uuid, total, used, busy, ecc, limit, defaultLimit, name].join(', ');
}

const HEALTHY = {
  index: '0',
  uuid: 'GPU-3f0f6b5c-9d0e-4b1b-8f8e-5a1c0d2e7a11',
  total: '81559',
  used: '1',
  busy: '0',
  ecc: '0',
  limit: '700.00',
  defaultLimit: '700.00',
  name: 'NVIDIA H100 80GB HBM3',
};

/** A program `nvidia-smi` in a folder of its own, for the PATH. @param script lines of sh */
export function standInNvidiaSmi(script: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'nvidia-smi-'));
  const program = join(folder, 'nvidia-smi');
  writeFileSync(program, `#!/bin/sh\n${script}\n`);
  chmodSync(program, 0o755);
  return folder;
}

/** The script that answers with these GPUs. */
export function printing(...lines: string[]): string {
  return `cat <<'END'\n${lines.join('\n')}\nEND`;
}

/** Lines of sh for `standInNvidiaSmi` that print what is asked for of these GPUs, by nvidia-smi's names of its columns. */
export function printingGpus(...gpus: Record<string, string | number>[]): string {
  const lines = gpus.map((gpu) => {
    const known = Object.entries(gpu).map(([column, value]) => `${column}) cell="${value}" ;;`);
    return `line= ; for column in $columns; do case $column in ${known.join(' ')} *) cell='[N/A]' ;; esac; line="$line, $cell"; done; echo "\${line#, }"`;
  });
  const columns = `for given in "$@"; do case $given in --query-gpu=*) columns=$(echo "\${given#*=}" | tr , " ") ;; esac; done`;
  return [columns, ...lines].join('\n');
}
