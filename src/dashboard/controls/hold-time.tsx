/** Shows the button that fixes a moving span of time, so that its address shows the same to others. */
export function HoldTime({ onHold }: { onHold(): void }) {
  return (
    <button type="button" onClick={onHold} title="Makes this span part of the address, for others to see">
      Hold this time
    </button>
  );
}
