/** Of a request, all but its body. */
export interface RequestHead {
  readonly method: string;
  /** The whole address. */
  readonly url: string;
  readonly headers: HeadersOfRequest;
}

/** Names are in small letters. */
interface HeadersOfRequest extends Iterable<[name: string, value: string]> {
  get(name: string): string | null;
  has(name: string): boolean;
}
