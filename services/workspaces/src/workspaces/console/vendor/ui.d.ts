export { Fragment, h, render, type ComponentChildren, type VNode } from "preact";
export { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export { batch, computed, effect, signal, untracked, useComputed, useSignal, useSignalEffect, type Signal } from "@preact/signals";
export { default as htm } from "htm";
