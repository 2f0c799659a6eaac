import { existsSync } from 'node:fs';
import { ApiError, notFound } from './errors.ts';

/** The LoRA adapters that are loaded while the engine runs, with vLLM 0.32's statuses and words. */
export class LoadedAdapters {
  readonly #base: readonly string[];
  readonly #isEnabled: boolean;
  /** The paths from which the adapters were loaded, by name. */
  readonly #paths = new Map<string, string>();

  /** @param base the names of the model itself @param isEnabled whether `--enable-lora` was given */
  constructor(base: readonly string[], isEnabled: boolean) {
    this.#base = base;
    this.#isEnabled = isEnabled;
  }

  get paths(): ReadonlyMap<string, string> {
    return this.#paths;
  }

  /** The names of all loaded adapters that requests may use. */
  get names(): string[] {
    return [...this.#base, ...this.#paths.keys()];
  }

  /** @throws ApiError as vLLM answers it @returns the answer's text */
  load({ lora_name: name, lora_path: path, load_inplace }: Record<string, unknown>): string {
    if (typeof name !== 'string' || typeof path !== 'string' || name === '' || path === '')
      throw invalid("Both 'lora_name' and 'lora_path' must be provided.");
    if (this.#base.includes(name))
      throw invalid(`The lora adapter '${name}' conflicts with a served base model.`);
    if (this.#paths.has(name) && load_inplace !== true) {
      throw invalid(
        `The lora adapter '${name}' has already been loaded. If you want to load the adapter in place, set 'load_inplace' to True.`,
      );
    }
    if (!this.#isEnabled) throw new ApiError(500, 'InternalServerError', 'LoRA is not enabled.');
    if (!existsSync(path))
      throw new ApiError(404, 'NotFoundError', `Loading lora ${name} failed: No adapter found for ${path}`);
    this.#paths.set(name, path);
    return `Success: LoRA adapter '${name}' added successfully.`;
  }

  /** @throws ApiError as vLLM answers it @returns the answer's text */
  unload({ lora_name: name }: Record<string, unknown>): string {
    if (typeof name !== 'string' || name === '')
      throw invalid("'lora_name' needs to be provided to unload a LoRA adapter.");
    if (!this.#paths.delete(name)) throw notFound(`The lora adapter '${name}' cannot be found.`, 'lora_name');
    return `Success: LoRA adapter '${name}' removed successfully.`;
  }
}

function invalid(message: string): ApiError {
  return new ApiError(400, 'InvalidUserInput', message);
}
