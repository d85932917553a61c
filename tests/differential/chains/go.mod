module watchcache/chains

go 1.26
