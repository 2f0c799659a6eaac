/** One worker. */
export function WorkerView({ id }: { id: string }) {
  return <h1 data-id={id}>{id}</h1>;
}
