/** A request without its body. */
export interface RequestHead {
  readonly method: string;
  /** The request's whole address. */
  readonly url: string;
  readonly headers: HeadersOfRequest;
}

/** A request's headers; their names are in small letters. */
interface HeadersOfRequest extends Iterable<[name: string, value: string]> {
  get(name: string): string | null;
  has(name: string): boolean;
}
