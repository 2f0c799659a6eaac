import type { Command, Option } from 'commander';

/**
 * Prints all flags in the form of `vllm serve --help=all`, which is Python's argparse: a supervisor learns the flags of
 * either engine from the same shape.
 */
export function argparseHelp(command: Command): string {
  const positive = command.options.filter((option) => !option.negate);
  const negated = new Set(command.options.filter((option) => option.negate).map((option) => option.long));
  const lines = positive.map((option) => lineOf(option, negated.has(`--no-${option.long?.slice(2)}`)));
  return ['usage: vllm serve [model_tag] [options]', '', 'options:', ...lines].join('\n');
}

function lineOf(option: Option, isPair: boolean): string {
  const name = option.long ?? option.flags;
  const value = name.slice(2).replaceAll('-', '_').toUpperCase();
  const description = option.description === '' ? '' : `\n                        ${option.description}`;
  if (isPair) return `  ${name}, --no-${name.slice(2)}${description}`;
  if (!option.required) return `  ${name}${description}`;
  return `  ${name} ${value}${option.variadic ? ` [${value} ...]` : ''}${description}`;
}
