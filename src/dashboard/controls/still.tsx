import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

/**
 * What comes and goes here does not move what stands below: the room that it once took is kept, until the view is left
 * or the window has another width.
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
