import { findProgram, readEngineConfiguration } from '../engine/command/configuration.ts';
import { describeEngine } from '../engine/kinds/index.ts';

/** The engine that a command runs on this machine. */
export interface ChosenEngine {
  /** The environment, completed so that the supervisor chooses the same engine. */
  env: NodeJS.ProcessEnv;
  isSimulated: boolean;
  /** The line that tells the user which engine was chosen. */
  announcement: string;
}

/** The simulator's model where none is named. */
const SIMULATED_MODEL = 'simulated';

/**
 * Chooses an engine: `ENGINE_URL` attaches to one that runs, `VLLM_MODEL` asks for vLLM, neither means the simulator.
 * `ENGINE` decides where it is set.
 * @throws UserError when a variable is bad or vLLM is not installed; never chooses something else silently
 */
export function chooseEngine(env: NodeJS.ProcessEnv): ChosenEngine {
  const completed = withEngine(env);
  const isSimulated = completed.ENGINE === 'simulator';
  const configuration = readEngineConfiguration(completed);
  const engine = describeEngine(configuration.engine);
  if (configuration.settings && engine.command) {
    findProgram(engine.command(configuration.settings).program, engine, completed);
  }
  return { env: completed, isSimulated, announcement: announcementOf(configuration) };
}

/** Returns the environment with the simulator in it where no other engine was asked for. */
export function withEngine(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const isSimulated = env.ENGINE
    ? env.ENGINE === 'simulator'
    : !env.ENGINE_URL?.trim() && !env.VLLM_MODEL?.trim();
  if (!isSimulated) return env;
  return { ...env, ENGINE: 'simulator', VLLM_MODEL: env.VLLM_MODEL?.trim() || SIMULATED_MODEL };
}

/** The hint on how to leave the simulator. */
export const REAL_ENGINE_HINT = `
  Answers are SIMULATED: no model runs here. For real ones, either
    VLLM_MODEL=Qwen/Qwen3-0.6B npm start             serves a model with vLLM (pip install vllm)
    ENGINE_URL=http://127.0.0.1:11434 npm start      attaches to an engine that runs (vLLM, Ollama, llama.cpp)
`;

function announcementOf({ engine, url, model }: ReturnType<typeof readEngineConfiguration>): string {
  if (engine === 'simulator') return 'Engine: a simulator. Answers are SIMULATED: no model runs here.';
  if (engine === 'external') return `Engine: the one that runs at ${url}.`;
  return `Engine: ${describeEngine(engine).title} with ${model}. Loading a model can take minutes, the first time longer.`;
}
