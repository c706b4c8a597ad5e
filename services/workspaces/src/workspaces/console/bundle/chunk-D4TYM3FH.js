import{p as t}from"./chunk-VQFA7AQP.js";var d=e=>e.number?"number":e.class??"",p=({label:e,columns:$,rows:i,keyOf:r,href:s})=>t`
  <div class="table-frame" role="region" aria-label=${e} tabindex="0"><table aria-label=${e}>
    <thead><tr>${$.map(a=>t`<th scope="col" class=${d(a)}>${a.title}</th>`)}</tr></thead>
    <tbody>${i.map(a=>t`<tr key=${r(a)} class=${s?"leads":""}>${$.map((l,b)=>t`
      <td class=${d(l)} data-title=${l.title}>${b===0&&s?t`<a class="row-link" href=${s(a)}>${l.cell(a)}</a>`:l.cell(a)}</td>`)}</tr>`)}</tbody>
  </table></div>`;export{p as a};
