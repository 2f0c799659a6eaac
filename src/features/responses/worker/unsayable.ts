/** A request of the Responses API that a chat completion cannot say. */
export class Unsayable extends Error {
  /** The field that is at fault. */
  readonly param: string;
  constructor(what: string, param: string, where: string) {
    super(
      `${what} cannot be had here: the engine has chat completions alone, and a chat has no such thing. ${where}`,
    );
    this.param = param;
  }
}

const WITH_TOOL_SERVER = 'vLLM has it for gpt-oss, started with a tool server.';
/** Says that no engine that one hosts oneself has something. */
export const NOWHERE = 'No engine that you can host has it: give the model a function in its place.';

/** The tools that are no functions, and which engine has them. */
const ENGINES_OF_TOOLS: Readonly<Record<string, string>> = {
  web_search:
    'vLLM has "web_search_preview" for gpt-oss, started with a tool server; else leave the tool out.',
  web_search_preview: WITH_TOOL_SERVER,
  code_interpreter: WITH_TOOL_SERVER,
  mcp: WITH_TOOL_SERVER,
};

/** Makes the refusal of a tool. */
export function unsayableTool(type: string, param: string): Unsayable {
  return new Unsayable(`The tool "${type.slice(0, 64)}"`, param, ENGINES_OF_TOOLS[type] ?? NOWHERE);
}
