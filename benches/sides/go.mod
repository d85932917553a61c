module watchcache/benches/sides

go 1.24
