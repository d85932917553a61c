module watchcache/benches/agents

go 1.25
