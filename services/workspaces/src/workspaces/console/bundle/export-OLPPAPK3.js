import{a as r}from"./chunk-HAVRKSP7.js";import{E as c,J as m}from"./chunk-VQFA7AQP.js";var i=200;async function d(e){let n=[];for(let o=null,s=!0;s;s=o!==null){let l=await c(`${m`/conversations/${e.id}`}?limit=${i}${o===null?"":`&before=${o}`}`);n.unshift(...l.messages),o=l.before}let a=[`# ${r(e)}`,...n.map(g)].join(`

`),t=document.createElement("a");t.href=URL.createObjectURL(new Blob([a,`
`],{type:"text/markdown"})),t.download=`${r(e).replace(/[^\p{L}\p{N} _-]+/gu,"").trim().slice(0,60)||"conversation"}.md`,t.click(),setTimeout(()=>URL.revokeObjectURL(t.href),1e3)}function g(e){let n=e.role==="user"?"You":e.agent_title??"Agent",a=e.images.length?[`*${e.images.length===1?"An image":`${e.images.length} images`}*`]:[],t=e.status==="failed"?[`*Failed: ${e.error??"no answer"}*`]:e.status==="cancelled"?["*Cancelled*"]:[];return[`## ${n}, ${new Date(e.created_at).toLocaleString()}`,...a,e.content,...t].filter(Boolean).join(`

`)}export{d as exportConversation};
