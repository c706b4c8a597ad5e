export { Fragment, h, render, type ComponentChildren, type VNode } from "preact";
export { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export { batch, computed, effect, signal, useComputed, useSignal, type Signal } from "@preact/signals";
export { default as htm } from "htm";
