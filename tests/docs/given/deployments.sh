DIR=runs/experiments
ID=a
cat > one.csv <<'END'
id,model,engine,version,device,weights,kv,isl,osl,concurrency,tp
a,llama-3.1-8b,vllm,0.10.2,h200-sxm,bf16,bf16,128,32,4,1
END
twinserve predict serving --in one.csv --out one.predicted.csv --experiments runs/experiments
