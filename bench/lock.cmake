# What is measured of the record lock; the processes that compete for it are common to all.
add_library(berth_bench_lock STATIC
	lock_way.c lock_stage.c lock_queue.c lock_nursery.c place.c samples.c ../tests/race/crowd.c)
target_include_directories(berth_bench_lock PUBLIC ${CMAKE_SOURCE_DIR}/tests/race)
target_link_libraries(berth_bench_lock PUBLIC berth_flags berth_lock berth_base)
foreach(name owner-death herd contention uncontended)
	berth_bench(${name} SOURCES ${name}.c NEEDS berth_bench_lock)
endforeach()
