/** What the fleet costs, and what was launched; nothing tells it yet. */
export function SpendView() {
  return (
    <section class="view" aria-labelledby="spend-title">
      <h1 id="spend-title">Spend</h1>
      <p class="notice">
        No prices are known: nothing here starts workers by itself, so nothing tells what they cost an hour.
        Workers that are started by hand or by a platform are billed there.
      </p>
    </section>
  );
}
