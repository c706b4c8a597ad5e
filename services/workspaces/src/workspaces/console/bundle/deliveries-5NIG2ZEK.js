import{a as l}from"./chunk-77IHD7WJ.js";import"./chunk-2E25RMMV.js";import{a as p,b as h,c as $}from"./chunk-RXJ4GH74.js";import"./chunk-UEHZZART.js";import{D as r,E as n,X as a,aa as s,ba as m,ga as c,ha as d,p as e,t as o}from"./chunk-WZYHQKR3.js";function y(){let t=p(()=>r("/deliveries"),[],["instance"]),{busy:u,run:v}=h();o("Deliveries");let w=()=>v(async()=>{await n("/deliveries/reconcile"),c("Every instance is compared with Mnemosyne, and told again.")},d),{data:i}=t;return e`<div class="page">
    <header><div><h1>Deliveries</h1><p>What Mnemosyne has yet to be told about teams and their workspaces. Failed deliveries are tried again until they succeed.</p></div>
      <${a} icon="refresh-cw" busy=${u} onClick=${w}>Reconcile now<//></header>
    ${t.error&&e`<${s} tone="warn">${t.error}<//>`}
    ${i?i.waiting?e`<p class="waiting" role="status"><b>${i.waiting}</b> ${i.waiting===1?"instance is":"instances are"} not known to be in sync.</p>
        <${l} deliveries=${i.deliveries} named />`:e`<${m} icon="circle-check" title="Nothing waits">Mnemosyne has confirmed what is attached here.<//>`:e`<${$} loaded=${t} lines=${8} />`}
  </div>`}export{y as default};
