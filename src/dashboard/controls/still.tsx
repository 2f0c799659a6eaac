import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

/**
 * Keeps the most room that its contents once took, so that they can come and go without moving what is below, until
 * the view is left or the window has another width.
 */
export function Still({ children }: { children: ComponentChildren }) {
  const outer = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let [width, most] = [0, 0];
    const sizes = new ResizeObserver(([entry]) => {
      if (!entry || !outer.current) return;
      const size = entry.contentRect;
      if (size.width !== width) [width, most] = [size.width, 0];
      if (most === 0) outer.current.style.minHeight = '';
      if (size.height <= most) return;
      most = Math.ceil(size.height);
      outer.current.style.minHeight = `${most}px`;
    });
    sizes.observe(inner.current!);
    return () => sizes.disconnect();
  }, []);
  return (
    <div ref={outer}>
      <div class="still" ref={inner}>
        {children}
      </div>
    </div>
  );
}
