import { fieldsOf } from '../../../protocol/index.ts';
import type { ToolOfCall } from '../event-maker.ts';
import type { Fields } from '../types.ts';
import { NOWHERE, Unsayable, unsayableTool } from './unsayable.ts';

/** Translates the tools of a response into the functions of a chat. */
export interface ChatTools {
  tools: Fields[];
  /** Returns the tool that a function stands for. */
  toolOf(name: string): ToolOfCall;
}

/** Returns the functions of a chat. @throws Unsayable for tools that are none */
export function toolsOf(given: unknown): ChatTools {
  const known = new Map<string, ToolOfCall>();
  const functions = (tools: unknown, namespace: string | undefined, param: string): Fields[] =>
    (Array.isArray(tools) ? tools : []).flatMap((tool, at) => {
      const fields = fieldsOf(tool);
      const place = `${param}[${at}]`;
      if (fields.type === 'namespace' && namespace === undefined)
        return functions(fields.tools, String(fields.name), `${place}.tools`);
      const name = String(fields.name);
      const called = functionOf(fields, functionName(name, namespace), place);
      const type = fields.type === 'custom' ? 'custom' : 'function';
      known.set(String(called.name), { type, name, ...(namespace !== undefined && { namespace }) });
      return [{ type: 'function', function: called }];
    });
  return {
    tools: functions(given, undefined, 'tools'),
    toolOf: (name) => known.get(name) ?? { type: 'function', name },
  };
}

/** Returns the name of the function that stands for a tool. */
export function functionName(name: unknown, namespace: unknown): unknown {
  return typeof namespace === 'string' ? `${namespace}__${String(name)}` : name;
}

function functionOf(tool: Fields, name: unknown, param: string): Fields {
  const { type, description, parameters, strict, format } = tool;
  if (type === 'function') {
    return {
      name,
      ...(typeof description === 'string' && { description }),
      parameters: parameters ?? { type: 'object', properties: {} },
      ...(typeof strict === 'boolean' && { strict }),
    };
  }
  if (type !== 'custom') throw unsayableTool(String(type), param);
  const { type: form = 'text' } = fieldsOf(format);
  if (form !== 'text') {
    throw new Unsayable(
      `The custom tool "${String(name)}" with a ${String(form)}`,
      `${param}.format`,
      NOWHERE,
    );
  }
  const properties = { input: { type: 'string', description: 'The input of the tool, as plain text.' } };
  return {
    name,
    ...(typeof description === 'string' && { description }),
    parameters: { type: 'object', properties, required: ['input'], additionalProperties: false },
  };
}

/**
 * Returns the fields of a chat by which the model chooses its tools.
 * @throws Unsayable
 */
export function choiceOf(choice: unknown, { tools }: ChatTools): Fields {
  if (tools.length === 0) return {};
  if (choice === undefined || choice === null) return { tools };
  if (typeof choice === 'string') return { tools, tool_choice: choice };
  const { type, name, namespace, mode, tools: allowed } = fieldsOf(choice);
  if (type === 'function' || type === 'custom')
    return { tools, tool_choice: { type: 'function', function: { name: functionName(name, namespace) } } };
  if (type !== 'allowed_tools' || !Array.isArray(allowed)) throw unsayableTool(String(type), 'tool_choice');
  const names = new Set(allowed.map((tool) => functionName(fieldsOf(tool).name, fieldsOf(tool).namespace)));
  return {
    tools: tools.filter((tool) => names.has(fieldsOf(tool.function).name)),
    tool_choice: mode ?? 'auto',
  };
}
